#include "tensor_parallel/gradient_squares.h"

#include "tensor/device/host_memory.h"

namespace trireme::parallel {
namespace {

void add_block(const torch::Tensor& block, ExactSum& sum) {
  const torch::Tensor host = on_host(block.to(torch::kFloat32));
  trireme::add_squares({host.data_ptr<float>(), static_cast<std::size_t>(host.numel())}, sum);
}

}  // namespace

void add_squares(const TensorGroup& group, const torch::Tensor& gradient, const ParameterSlice* slice, ExactSum& sum) {
  if (slice == nullptr) {
    if (group.rank() == 0) add_block(gradient, sum);
    return;
  }
  for (Lane lane = group.mine().first; lane < group.mine().end(); ++lane) {
    const Range block = group.block(slice->whole, lane);
    const ParameterSlice here{.dim = slice->dim,
                              .begin = block.begin - slice->begin,
                              .end = block.end - slice->begin,
                              .whole = slice->end - slice->begin,
                              .pieces = slice->pieces};
    add_block(slice_of(gradient, here), sum);
  }
}

}  // namespace trireme::parallel
