#include "tensor/heap.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <mutex>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>

#include "base/error.h"

namespace trireme {
namespace {

std::atomic<std::int64_t> held_now{0};
std::atomic<std::int64_t> held_most{0};

std::int64_t size_of(void* memory) {
#ifdef __GLIBC__
  return static_cast<std::int64_t>(malloc_usable_size(memory));
#else
  static_cast<void>(memory);
  return 0;
#endif
}

void give_back(void* memory) {
  held_now -= size_of(memory);
  c10::free_cpu(memory);
}

/// LibTorch's own, counted.
class CountingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR >= 2
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  c10::DataPtr allocate(std::size_t bytes) override{
#else
  c10::DataPtr allocate(std::size_t bytes) const override {
#endif
      void* const memory = c10::alloc_cpu(bytes);
  const std::int64_t held = held_now += size_of(memory);
  std::int64_t before = held_most;
  while (before < held && !held_most.compare_exchange_weak(before, held)) {
  }
  return {memory, memory, &give_back, c10::Device(c10::DeviceType::CPU)};
}

c10::DeleterFnPtr
raw_deleter() const override {
  return &give_back;
}
};  // namespace

}  // namespace trireme

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most there is: what is larger is mapped and unmapped each time
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

void reserve_product_memory() {
  constexpr std::size_t kBytes = 160u << 20;  // what OpenBLAS takes, and some
  void* const memory = std::malloc(kBytes);
  if (memory == nullptr) {
    fail<InvalidArgument>(
        "this process may take too little memory: matrix products alone need 128 MiB to work in; raise the limit "
        "(ulimit "
        "-d, ulimit -v, or that of its cgroup)");
  }
  std::free(memory);
  const torch::NoGradGuard no_grad;
  const torch::Tensor matrix = torch::ones({512, 512});  // small ones need no memory
  torch::mm(matrix, matrix);
}

void count_tensor_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CountingAllocator& allocator = *new CountingAllocator;  // tensors may outlive everything
    c10::SetCPUAllocator(&allocator, /*priority=*/100);
  });
}

std::uint64_t tensor_peak() { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, held_most)); }

void reset_tensor_peak() { held_most = held_now.load(); }

}  // namespace trireme
