#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::app {

/// What `trireme bench allreduce --device` asks of its workers.
struct SumsRequest {
  std::string device = "cuda";
  std::vector<std::size_t> bytes;
  bool through_host = false;  ///< although the GPU's own way would do
  double seconds = 0.3;       ///< for each size, about
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SumsRequest, device, bytes, through_host, seconds)

/// Sums float32 buffers of each size, in the memory of a GPU, over the workers of the job. The chief reports `engine`,
/// by size the median time of a sum (`rows`: bytes, us), and how long a plain copy of that size takes on the device
/// (`copy_us`). Throws InvalidArgument, IoError, PeerLost, Timeout.
void measure_sums(const SumsRequest& request);

}  // namespace trireme::app
