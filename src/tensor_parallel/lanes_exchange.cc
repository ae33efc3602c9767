
#include <utility>

#include "trireme/tensor_parallel.h"

#include "base/error.h"
#include "tensor_parallel/linked.h"

namespace trireme::parallel {
namespace {

using torch::autograd::AutogradContext;

/// The same tensor for each lane of this process: no copy.
Tensors for_each_own_lane(const TensorGroup& group, const torch::Tensor& tensor) {
  Tensors lanes;
  for (Lane i = 0; i < group.mine().count; ++i) lanes.push_back(tensor.detach());
  return lanes;
}

std::int64_t from_front(const torch::Tensor& tensor, std::int64_t dim) { return dim < 0 ? dim + tensor.dim() : dim; }

torch::Tensor all_lanes(TensorGroup& group, const Tensors& lanes, const std::string& label) {
  return group.all_reduce(group.sum_own(lanes), collective::ReduceOp::kSum, label);
}

torch::Tensor own_part(const TensorGroup& group, const torch::Tensor& whole, std::int64_t dim) {
  const Range range = group.part(whole.size(dim));
  return group.size() == 1 ? whole.detach() : whole.narrow(dim, range.begin, range.size()).contiguous();
}

}  // namespace

torch::Tensor join_own_lanes(const LaneTensors& lanes, std::int64_t dim) {
  if (lanes.size() == 1) return lanes.front().contiguous();
  dim = from_front(lanes.front(), dim);
  std::vector<std::int64_t> sizes;
  for (const torch::Tensor& lane : lanes) sizes.push_back(lane.size(dim));
  return call_linked(lanes, {[dim](AutogradContext*, const Tensors& in) -> Tensors { return {torch::cat(in, dim)}; },
                             [dim, sizes](AutogradContext*, const Tensors& gradients) {
                               Tensors blocks;
                               for (const torch::Tensor& block : gradients[0].split_with_sizes(sizes, dim)) {
                                 blocks.push_back(block.contiguous());
                               }
                               return blocks;
                             }})
      .front();
}

LaneTensors copy_to_lanes(TensorGroup& group, const torch::Tensor& x, const std::string& label) {
  if (group.plain()) return {x};
  return call_linked({x},
                     {[&group](AutogradContext*, const Tensors& in) { return for_each_own_lane(group, in[0]); },
                      [&group, label, type = x.scalar_type()](AutogradContext*, const Tensors& gradients) -> Tensors {
                        return {all_lanes(group, gradients, label + " (backward)").to(type)};
                      }});
}

torch::Tensor sum_lanes(TensorGroup& group, const LaneTensors& lanes, const std::string& label) {
  if (group.plain()) return lanes.front();
  return call_linked(lanes, {[&group, label](AutogradContext*, const Tensors& in) -> Tensors {
                               return {all_lanes(group, in, label).to(in[0].scalar_type())};
                             },
                             [&group](AutogradContext*, const Tensors& gradients) {
                               return for_each_own_lane(group, gradients[0]);
                             }})
      .front();
}

LaneTensors gather_to_lanes(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole,
                            const std::string& label) {
  if (group.plain()) return {part};
  dim = from_front(part, dim);
  return call_linked(
      {part}, {[&group, dim, whole, label](AutogradContext*, const Tensors& in) {
                 return for_each_own_lane(group, group.all_gather(in[0], dim, whole, label));
               },
               [&group, dim, label, type = part.scalar_type()](AutogradContext*, const Tensors& gradients) -> Tensors {
                 return {group.reduce_scatter(group.sum_own(gradients), dim, label + " (backward)").to(type)};
               }});
}

torch::Tensor sum_lanes_to_parts(TensorGroup& group, const LaneTensors& lanes, const torch::Tensor& bias,
                                 std::int64_t dim, const std::string& label) {
  if (group.plain()) return bias.defined() ? lanes.front() + bias : lanes.front();
  dim = from_front(lanes.front(), dim);
  const std::int64_t whole = lanes.front().size(dim);
  Tensors inputs = lanes;
  if (bias.defined()) inputs.push_back(bias);
  const bool biased = bias.defined();
  const auto forward = [&group, dim, label, biased](AutogradContext*, const Tensors& in) -> Tensors {
    const Tensors own(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(group.mine().count));
    torch::Tensor sum = group.reduce_scatter(group.sum_own(own), dim, label);
    if (biased) sum = sum + in.back();
    return {sum.to(in[0].scalar_type())};
  };
  const auto backward = [&group, dim, whole, label, biased](AutogradContext*, const Tensors& gradients) {
    const torch::Tensor all = group.all_gather(gradients[0], dim, whole, label + " (backward)");
    Tensors result = for_each_own_lane(group, all);
    // Every process has the whole gradient here, so that of the bias needs no exchange.
    if (biased) result.push_back(all.to(torch::kFloat32).reshape({-1, all.size(-1)}).sum(0));
    return result;
  };
  return call_linked(inputs, {forward, backward}).front();
}

torch::Tensor gather_parts(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole,
                           const std::string& label) {
  if (group.size() == 1) return part;
  dim = from_front(part, dim);
  return call_linked({part}, {[&group, dim, whole, label](AutogradContext*, const Tensors& in) -> Tensors {
                                return {group.all_gather(in[0], dim, whole, label)};
                              },
                              [&group, dim](AutogradContext*, const Tensors& gradients) -> Tensors {
                                return {own_part(group, gradients[0], dim)};
                              }})
      .front();
}

torch::Tensor take_part(TensorGroup& group, const torch::Tensor& x, std::int64_t dim, const std::string& label) {
  if (group.size() == 1) return x;
  dim = from_front(x, dim);
  return call_linked(
             {x},
             {[&group, dim](AutogradContext*, const Tensors& in) -> Tensors { return {own_part(group, in[0], dim)}; },
              [&group, dim, label, whole = x.size(dim)](AutogradContext*, const Tensors& gradients) -> Tensors {
                return {group.all_gather(gradients[0], dim, whole, label + " (backward)")};
              }})
      .front();
}

torch::Tensor join_lanes(TensorGroup& group, const LaneTensors& lanes, std::int64_t dim, std::int64_t whole,
                         const std::string& label) {
  if (group.plain()) return lanes.front();
  return gather_parts(group, join_own_lanes(lanes, dim), dim, whole, label);
}

LaneTensors split_part(TensorGroup& group, const torch::Tensor& part, std::int64_t dim, std::int64_t whole) {
  dim = from_front(part, dim);
  if (part.size(dim) != group.part(whole).size()) {
    fail<InvalidArgument>("{} of {} features; rank {} of {} has {}", part.size(dim), whole, group.rank(), group.size(),
                          group.part(whole).size());
  }
  if (group.mine().count == 1) return {part.contiguous()};
  Tensors lanes;
  for (const torch::Tensor& block : part.split_with_sizes(group.block_sizes(whole), dim)) {
    lanes.push_back(block.contiguous());
  }
  return lanes;
}

LaneTensors each_lane(LaneTensors lanes, const std::function<torch::Tensor(const torch::Tensor&)>& function) {
  for (torch::Tensor& lane : lanes) lane = function(lane);
  return lanes;
}

}  // namespace trireme::parallel
