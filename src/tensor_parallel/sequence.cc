#include <utility>

#include <torch/nn/functional/normalization.h>

#include "trireme/tensor_parallel.h"

#include "base/error.h"
#include "tensor_parallel/linked.h"

namespace trireme::parallel {

SequenceLayerNormImpl::SequenceLayerNormImpl(TensorGroup& group, const torch::nn::LayerNorm& whole, std::string label)
    : group_(group), eps_(whole->options.eps()), label_(std::move(label)) {
  if (!whole->weight.defined() || whole->weight.dim() != 1) {
    fail<InvalidArgument>("{}: only a norm over the last dimension, with scale and offset, can be divided", label_);
  }
  weight = register_parameter("weight", whole->weight.detach().clone());
  bias = register_parameter("bias", whole->bias.detach().clone());
}

torch::Tensor SequenceLayerNormImpl::forward(const torch::Tensor& part, std::int64_t dim, std::int64_t whole) {
  const std::int64_t width = weight.size(0);
  if (group_.plain()) return torch::layer_norm(part, {width}, weight, bias, eps_);
  const LaneTensors blocks = split_part(group_, part, dim, whole);
  const LaneTensors both = copy_to_lanes(group_, torch::stack({weight, bias}), label_);  // one sum for their gradients
  LaneTensors normed;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    normed.push_back(torch::layer_norm(blocks[i], {width}, both[i][0], both[i][1], eps_));
  }
  return join_own_lanes(normed, dim);
}

torch::Tensor add_positions(TensorGroup& group, const torch::Tensor& part, const torch::Tensor& table,
                            std::int64_t length, const std::string& label) {
  if (part.dim() != 3 || table.dim() != 2 || length > table.size(0)) {
    fail<InvalidArgument>("{}: {} positions, the table has {}", label, length, table.size(0));
  }
  const Range own = group.part(length);
  const auto forward = [own](torch::autograd::AutogradContext*, const Tensors& in) -> Tensors {
    return {in[0] + in[1].narrow(0, own.begin, own.size())};
  };
  const auto backward = [&group, length, label, rows = table.size(0), type = table.scalar_type()](
                            torch::autograd::AutogradContext*, const Tensors& gradients) -> Tensors {
    LaneTensors sums;  // over the samples: part of the length × width
    for (const torch::Tensor& block : split_part(group, gradients[0], 1, length)) sums.push_back(block.sum(0));
    const torch::Tensor seen = group.all_gather(torch::cat(sums), 0, length, label + " (backward)").to(type);
    return {gradients[0], length == rows ? seen : torch::cat({seen, seen.new_zeros({rows - length, seen.size(1)})})};
  };
  return call_linked({part, table}, {forward, backward}).front();
}

}  // namespace trireme::parallel
