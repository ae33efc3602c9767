#include <utility>

#include <torch/nn/functional/linear.h>

#include "trireme/tensor_parallel.h"

#include "base/error.h"

namespace trireme::parallel {
namespace {

namespace F = torch::nn::functional;

ParameterSlice slice_along(const TensorGroup& group, std::int64_t dim, std::int64_t whole, std::int64_t pieces = 1) {
  const Range range = group.part(whole);
  return {.dim = dim, .begin = range.begin, .end = range.end, .whole = whole, .pieces = pieces};
}

/// The blocks of this process's lanes of a parameter whose first dimension holds `pieces` parts of each.
LaneTensors blocks_of(const TensorGroup& group, const torch::Tensor& parameter, std::int64_t whole,
                      std::int64_t pieces) {
  LaneTensors blocks;
  if (group.mine().count == 1) return {parameter};
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] /= pieces;
  shape.insert(shape.begin(), pieces);
  for (const torch::Tensor& block : parameter.view(shape).split_with_sizes(group.block_sizes(whole), 1)) {
    blocks.push_back(block.flatten(0, 1).contiguous());
  }
  return blocks;
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(TensorGroup& group, const torch::nn::Linear& whole,
                                                   std::int64_t pieces)
    : group_(group), pieces_(pieces), outputs_(whole->weight.size(0) / pieces) {
  if (whole->weight.size(0) % pieces != 0) {
    fail<InvalidArgument>("{} outputs are not {} matrices of the same size", whole->weight.size(0), pieces);
  }
  slices_["weight"] = slice_along(group, 0, outputs_, pieces);
  weight = register_parameter("weight", slice_of(whole->weight, slices_["weight"]));
  if (!whole->bias.defined()) return;
  slices_["bias"] = slices_["weight"];
  bias = register_parameter("bias", slice_of(whole->bias, slices_["bias"]));
}

LaneTensors ColumnParallelLinearImpl::forward(const LaneTensors& x) {
  const LaneTensors weights = blocks_of(group_, weight, outputs_, pieces_);
  const LaneTensors biases = bias.defined() ? blocks_of(group_, bias, outputs_, pieces_) : LaneTensors(x.size());
  LaneTensors y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(F::linear(x[i], weights[i], biases[i]));
  return y;
}

RowParallelLinearImpl::RowParallelLinearImpl(TensorGroup& group, const torch::nn::Linear& whole, std::string label)
    : group_(group), inputs_(whole->weight.size(1)), label_(std::move(label)) {
  slices_["weight"] = slice_along(group, 1, inputs_);
  weight = register_parameter("weight", slice_of(whole->weight, slices_["weight"]));
  if (whole->bias.defined()) bias = register_parameter("bias", whole->bias.detach().clone());
}

LaneTensors RowParallelLinearImpl::products(const LaneTensors& x) {
  const LaneTensors weights = split_part(group_, weight, 1, inputs_);
  LaneTensors y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(F::linear(x[i], weights[i]));
  return y;
}

torch::Tensor RowParallelLinearImpl::forward(const LaneTensors& x) {
  if (group_.plain()) return F::linear(x.front(), weight, bias);
  const torch::Tensor sum = sum_lanes(group_, products(x), label_);
  return bias.defined() ? sum + bias : sum;
}

torch::Tensor RowParallelLinearImpl::forward_features(const torch::Tensor& features) {
  return forward(split_part(group_, features, -1, inputs_));
}

torch::Tensor RowParallelLinearImpl::forward_to_parts(const LaneTensors& x, std::int64_t dim) {
  if (group_.plain()) return F::linear(x.front(), weight, bias);
  return sum_lanes_to_parts(group_, products(x), bias, dim, label_);
}

ColumnParallelConv2dImpl::ColumnParallelConv2dImpl(TensorGroup& group, const torch::nn::Conv2d& whole)
    : group_(group),
      options_(whole->options.in_channels(), whole->options.out_channels(), whole->options.kernel_size()) {
  const auto* padding = get_if<torch::ExpandingArray<2>>(&whole->options.padding());
  const bool zeros = get_if<torch::enumtype::kZeros>(&whole->options.padding_mode()) != nullptr;
  if (whole->options.groups() != 1 || padding == nullptr || !zeros) {
    fail<InvalidArgument>("a convolution with groups, or that pads by more than a number of zeros, cannot be divided");
  }
  options_.stride(whole->options.stride()).padding(*padding).dilation(whole->options.dilation());
  slices_["weight"] = slice_along(group, 0, whole->weight.size(0));
  weight = register_parameter("weight", slice_of(whole->weight, slices_["weight"]));
  if (!whole->bias.defined()) return;
  slices_["bias"] = slices_["weight"];
  bias = register_parameter("bias", slice_of(whole->bias, slices_["bias"]));
}

LaneTensors ColumnParallelConv2dImpl::forward(const LaneTensors& x) {
  const std::int64_t channels = options_.out_channels();
  const LaneTensors weights = blocks_of(group_, weight, channels, 1);
  const LaneTensors biases = bias.defined() ? blocks_of(group_, bias, channels, 1) : LaneTensors(x.size());
  const auto padding = *get_if<torch::ExpandingArray<2>>(&options_.padding());
  LaneTensors y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(torch::conv2d(x[i], weights[i], biases[i], options_.stride(), padding, options_.dilation()));
  }
  return y;
}

}  // namespace trireme::parallel
