#include "base/error.h"
#include "tensor/device/work_graph.h"

// A build without a CUDA compiler, or with a LibTorch that knows no GPUs.

namespace trireme::device {

bool can_record(torch::Device /*device*/) { return false; }

void use_own_stream(torch::Device /*device*/) {}

std::unique_ptr<WorkGraph> record(torch::Device /*device*/, const WorkGraph* /*beside*/,
                                  const std::function<void()>& /*work*/) {
  TRIREME_CHECK(false, "this build records no work of GPUs");
  return nullptr;
}

bool has_drawn(torch::Device /*device*/) { return false; }

}  // namespace trireme::device
