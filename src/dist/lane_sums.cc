#include "dist/lane_sums.h"

#include "base/error.h"

namespace trireme::dist {

LaneSums::LaneSums(GradientBuckets& buckets, std::vector<torch::Tensor> parameters)
    : buckets_(buckets), parameters_(std::move(parameters)) {}

void LaneSums::begin_step(Lane lanes) {
  if (buckets_.on_their_way())
    fail<InvalidArgument>("the step before was not made: call optimizer.step() after its lanes");
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  sums_ = summation_by_lane(lanes);
  next_ = 0;
  in_lane_ = false;
}

void LaneSums::begin_lane(double weight) {
  weight_ = weight;
  in_lane_ = true;
  taken_.assign(parameters_.size(), false);
}

void LaneSums::take(std::size_t i) {
  torch::NoGradGuard no_grad;
  const torch::Tensor to = buffer(sums_[next_].level, i);
  torch::Tensor& gradient = parameters_[i].mutable_grad();
  if (!gradient.defined()) {
    to.zero_();
  } else {
    to.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    if (weight_ != 1) to.mul_(weight_);
    gradient.reset();  // each lane begins without one
  }
  taken_[i] = true;
  if (next_ + 1 < sums_.size()) return;
  add(i);
  buckets_.add_filled(i);
}

/// What is to be added once the present lane is there.
void LaneSums::add(std::size_t i) {
  for (const std::size_t level : sums_[next_].adds) buffer(level - 1, i).add_(buffer(level, i));
}

void LaneSums::end_lane() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (!taken_[i]) take(i);
  }
  const bool last = next_ + 1 == sums_.size();
  for (std::size_t i = 0; i < parameters_.size() && !last; ++i) add(i);
  ++next_;
  in_lane_ = false;
}

torch::Tensor LaneSums::buffer(std::size_t level, std::size_t i) {
  const torch::Tensor& to = buckets_.gradient(i);
  if (level == 0) return to;
  while (scratch_.size() < level) scratch_.emplace_back(parameters_.size());
  torch::Tensor& tensor = scratch_[level - 1][i];
  if (!tensor.defined()) tensor = torch::empty_like(to);
  return tensor;
}

}  // namespace trireme::dist
