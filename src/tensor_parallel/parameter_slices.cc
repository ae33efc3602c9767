#include "trireme/tensor_parallel.h"

#include "base/error.h"

namespace trireme::parallel {
namespace {

/// Looks at dimension `dim` as the pieces and what is in each of them: `elements`.
torch::Tensor in_pieces(const torch::Tensor& tensor, const ParameterSlice& slice, std::int64_t elements) {
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape[static_cast<std::size_t>(slice.dim)] = elements;
  shape.insert(shape.begin() + slice.dim, slice.pieces);
  return tensor.reshape(shape);
}

}  // namespace

torch::Tensor slice_of(const torch::Tensor& whole, const ParameterSlice& slice) {
  if (whole.size(slice.dim) != slice.pieces * slice.whole) {
    fail<InvalidArgument>("a slice of {} × {} elements along dimension {} is not one of a tensor that has {} there",
                          slice.pieces, slice.whole, slice.dim, whole.size(slice.dim));
  }
  return in_pieces(whole.detach(), slice, slice.whole)
      .narrow(slice.dim + 1, slice.begin, slice.end - slice.begin)
      .flatten(slice.dim, slice.dim + 1)
      .clone(torch::MemoryFormat::Contiguous);
}

std::map<std::string, ParameterSlice> parameter_slices(const torch::nn::Module& module) {
  std::map<std::string, ParameterSlice> slices;
  for (const auto& entry : module.named_modules("", /*include_self=*/false)) {
    const auto* sliced = dynamic_cast<const SlicedModule*>(entry.value().get());
    if (sliced == nullptr) continue;
    for (const auto& [name, slice] : sliced->slices()) slices[entry.key() + "." + name] = slice;
  }
  if (const auto* self = dynamic_cast<const SlicedModule*>(&module)) {
    slices.insert(self->slices().begin(), self->slices().end());
  }
  return slices;
}

std::map<std::string, torch::Tensor> gather_parameters(TensorGroup& group, const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const std::map<std::string, ParameterSlice> slices = parameter_slices(module);
  std::map<std::string, torch::Tensor> whole;
  for (const auto& parameter : module.named_parameters()) {
    const auto found = slices.find(parameter.key());
    const torch::Tensor& own = parameter.value();
    if (found == slices.end()) {
      whole[parameter.key()] = own.detach().clone();
      continue;
    }
    const ParameterSlice& slice = found->second;
    const torch::Tensor part = in_pieces(own.detach(), slice, slice.end - slice.begin);
    whole[parameter.key()] =
        group.all_gather(part, slice.dim + 1, slice.whole, parameter.key()).flatten(slice.dim, slice.dim + 1).clone();
  }
  return whole;
}

}  // namespace trireme::parallel
