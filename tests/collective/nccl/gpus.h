#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "collective/nccl/nccl_backend.h"
#include "tests/collective/testing.h"

namespace trireme::collective {

#ifdef TRIREME_NCCL_STAND_IN
inline constexpr bool kStandIn = true;
#else
inline constexpr bool kStandIn = false;
#endif

inline std::uint32_t gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<std::uint32_t>(count) : 0;
}

/// Runs `body` on so many ranks, threads of this process with a GPU each, of which `base` holds for both the native and
/// the NCCL communicator; nothing may be thrown. With fewer GPUs than ranks it runs on as many as there are, and says
/// so.
inline void expect_gpus(std::uint32_t ranks, const CommunicatorOptions& base,
                        const std::function<void(Communicator& gpus)>& body) {
  const std::uint32_t size = std::min(ranks, gpus());
  if (size < ranks) std::cout << "meant for " << ranks << " GPUs; there are " << size << ": tested on these\n";
  if (size == 0) FAIL() << "no GPU";
  expect_ranks(size, base, [&](Communicator& hosts) {
    Communicator gpus(make_nccl_backend(hosts, static_cast<int>(hosts.rank())), base);
    body(gpus);
    hosts.run(barrier());
  });
}

}  // namespace trireme::collective
