#include "tensor/device/work_graph.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <utility>

#include <torch/cuda.h>

#include "base/error.h"

namespace trireme::device {
namespace {

using Pool = decltype(std::declval<at::cuda::CUDAGraph&>().pool());

class CudaWorkGraph final : public WorkGraph {
 public:
  at::cuda::CUDAGraph& graph() { return graph_; }
  const Pool& pool() const { return pool_; }
  void keep_pool() { pool_ = graph_.pool(); }

  void replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
  Pool pool_{};
};

}  // namespace

bool can_record(torch::Device device) { return device.is_cuda() && torch::cuda::is_available(); }

void use_own_stream(torch::Device device) {
  if (!can_record(device)) return;
  const c10::cuda::CUDAGuard guard(device);
  torch::cuda::synchronize(guard.current_device().index());
  c10::cuda::setCurrentCUDAStream(
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, guard.current_device().index()));
}

std::unique_ptr<WorkGraph> record(torch::Device device, const WorkGraph* beside, const std::function<void()>& work) {
  const c10::cuda::CUDAGuard guard(device);
  auto recorded = std::make_unique<CudaWorkGraph>();
  torch::cuda::synchronize(guard.current_device().index());
  c10::cuda::CUDACachingAllocator::emptyCache();  // what is recorded has memory of its own
  const Pool pool = beside == nullptr ? Pool{0, 0} : static_cast<const CudaWorkGraph*>(beside)->pool();
  // Other threads call CUDA meanwhile, and may.
  recorded->graph().capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  std::exception_ptr problem;
  try {
    work();
  } catch (...) {
    problem = std::current_exception();
  }
  try {
    recorded->graph().capture_end();
    recorded->keep_pool();
  } catch (const std::exception& failure) {
    cudaGetLastError();  // or the next call would report it
    if (!problem) problem = std::make_exception_ptr(IoError(failure.what()));
  }
  if (problem) std::rethrow_exception(problem);
  return recorded;
}

bool has_drawn(torch::Device device) {
  if (!can_record(device)) return false;
  return at::globalContext().defaultGenerator(device).get_offset() != 0;
}

}  // namespace trireme::device
