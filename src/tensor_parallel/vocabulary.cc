#include <limits>
#include <utility>

#include <torch/nn/functional/linear.h>

#include "trireme/tensor_parallel.h"

#include "base/error.h"
#include "tensor_parallel/linked.h"

namespace trireme::parallel {
namespace {

using torch::autograd::AutogradContext;

constexpr std::int64_t kAllPositions = -1;

/// Looks up rows of `weight`, this process's part of `vocabulary` rows. Divided along positions (dimension 1) if
/// `to_parts`. One process has the row and the others add zeros to it, so the sum is exact in any order.
torch::Tensor look_up(TensorGroup& group, const torch::Tensor& tokens, const torch::Tensor& weight,
                      std::int64_t vocabulary, bool to_parts, const std::string& label) {
  const Range own = group.part(vocabulary);
  const torch::Tensor flat = tokens.to(torch::kInt64).reshape(-1);
  const torch::Tensor places = flat.ge(own.begin).logical_and(flat.lt(own.end)).nonzero().reshape(-1);
  const torch::Tensor rows = flat.index_select(0, places) - own.begin;
  std::vector<std::int64_t> shape = tokens.sizes().vec();
  const std::int64_t length = to_parts ? tokens.size(1) : kAllPositions;
  shape.push_back(weight.size(1));
  const auto forward = [&, shape](AutogradContext* context, const Tensors& in) -> Tensors {
    context->save_for_backward({places, rows});
    torch::Tensor partial = torch::zeros({flat.size(0), in[0].size(1)}, in[0].options());
    partial.index_add_(0, places, in[0].index_select(0, rows));  // a sum with zero, also if all rows are here
    partial = partial.reshape(shape);
    return {to_parts ? group.reduce_scatter(partial, 1, label)
                     : group.all_reduce(partial, collective::ReduceOp::kSum, label)};
  };
  const auto backward = [&group, label, length, options = weight.options(), sizes = weight.sizes().vec()](
                            AutogradContext* context, const Tensors& gradients) -> Tensors {
    const Tensors saved = context->get_saved_variables();
    const torch::Tensor all =
        length == kAllPositions ? gradients[0] : group.all_gather(gradients[0], 1, length, label + " (backward)");
    torch::Tensor gradient = torch::zeros(sizes, options);
    gradient.index_add_(0, saved[1], all.reshape({-1, sizes[1]}).index_select(0, saved[0]));
    return {gradient};
  };
  return call_linked({weight}, {forward, backward}).front();
}

}  // namespace

VocabularyParallelEmbeddingImpl::VocabularyParallelEmbeddingImpl(TensorGroup& group, const torch::nn::Embedding& whole,
                                                                 std::string label)
    : group_(group), vocabulary_(whole->weight.size(0)), label_(std::move(label)) {
  if (vocabulary_ < group.lanes()) {
    fail<InvalidArgument>("{}: a vocabulary of {} cannot be divided into {} tensor lanes: the most are {}", label_,
                          vocabulary_, group.lanes(), vocabulary_);
  }
  const Range own = group.part(vocabulary_);
  slices_["weight"] = {.dim = 0, .begin = own.begin, .end = own.end, .whole = vocabulary_};
  weight = register_parameter("weight", slice_of(whole->weight, slices_["weight"]));
}

torch::Tensor VocabularyParallelEmbeddingImpl::forward(const torch::Tensor& tokens) {
  if (group_.plain()) return torch::embedding(weight, tokens);
  return look_up(group_, tokens, weight, vocabulary_, /*to_parts=*/false, label_);
}

torch::Tensor VocabularyParallelEmbeddingImpl::forward_to_parts(const torch::Tensor& tokens) {
  if (group_.plain()) return torch::embedding(weight, tokens);
  return look_up(group_, tokens, weight, vocabulary_, /*to_parts=*/true, label_);
}

LaneTensors VocabularyParallelEmbeddingImpl::logits(const LaneTensors& x) {
  const LaneTensors weights = split_part(group_, weight, 0, vocabulary_);
  LaneTensors result;
  for (std::size_t i = 0; i < x.size(); ++i) result.push_back(torch::nn::functional::linear(x[i], weights[i]));
  return result;
}

torch::Tensor vocabulary_cross_entropy(TensorGroup& group, const LaneTensors& logits, const torch::Tensor& targets,
                                       std::int64_t classes, std::int64_t ignored, const std::string& label) {
  const torch::Tensor counted = targets.ne(ignored);
  const double count = counted.sum().item<double>();
  LaneTensors firsts;  // the number of each lane's first class
  for (Lane lane = group.mine().first; lane < group.mine().end(); ++lane) {
    firsts.push_back(torch::tensor(group.block(classes, lane).begin, torch::kInt64));
  }
  // Which class of the lane is the target's, and whether it is one of them.
  const auto own_target = [targets, counted, firsts](std::size_t lane, std::int64_t size) {
    const torch::Tensor at = targets - firsts[lane].to(targets.device());
    return std::pair{at.clamp(0, size - 1).unsqueeze(1), at.ge(0).logical_and(at.lt(size)).logical_and(counted)};
  };
  const auto forward = [&group, label, own_target, counted, count](AutogradContext* context,
                                                                   const Tensors& in) -> Tensors {
    Tensors largest;  // of each lane: samples × 1
    for (const torch::Tensor& lane : in) largest.push_back(lane.to(torch::kFloat32).amax(1, /*keepdim=*/true));
    const torch::Tensor most = group.all_reduce(torch::cat(largest, 1).amax(1, /*keepdim=*/true),
                                                collective::ReduceOp::kMax, label + " (maximum)");
    Tensors sums;  // of each lane: of the exponentials, and the target's logit
    Tensors saved;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const torch::Tensor shifted = in[i].to(torch::kFloat32) - most;
      const auto [at, here] = own_target(i, shifted.size(1));
      const torch::Tensor target = shifted.gather(1, at).squeeze(1).masked_fill(here.logical_not(), 0);
      saved.push_back(shifted.exp());
      sums.push_back(torch::stack({saved.back().sum(1), target}));
    }
    const torch::Tensor all =
        group.all_reduce(group.sum_own(sums), collective::ReduceOp::kSum, label + " (sum)");  // 2 × samples
    saved.push_back(all[0]);
    context->save_for_backward(saved);
    return {(all[0].log() - all[1]).masked_fill(counted.logical_not(), 0).sum() / count};
  };
  const auto backward = [own_target, counted, count, type = logits.front().scalar_type()](AutogradContext* context,
                                                                                          const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    const torch::Tensor scale = (gradients[0] / count * counted).unsqueeze(1);  // samples × 1
    Tensors result;
    for (std::size_t i = 0; i + 1 < saved.size(); ++i) {
      torch::Tensor gradient = saved[i] / saved.back().unsqueeze(1);
      const auto [at, here] = own_target(i, gradient.size(1));
      gradient.scatter_add_(1, at, here.to(torch::kFloat32).neg().unsqueeze(1));
      result.push_back(gradient.mul_(scale).to(type));
    }
    return result;
  };
  return call_linked(logits, {forward, backward}).front();
}

}  // namespace trireme::parallel
