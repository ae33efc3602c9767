#pragma once

#include <vector>

#include "dist/gradient_buckets.h"
#include "elastic/summation_schedule.h"

namespace trireme::dist {

/// Sums the gradients of this rank's lanes, one lane after the other, along the summation tree (base/numbers/lanes.h),
/// and adds each sum to the buckets while the last lane's backward still runs. Not thread-safe.
class LaneSums {
 public:
  /// `buckets` are those of `parameters`, and outlive this object.
  LaneSums(GradientBuckets& buckets, std::vector<torch::Tensor> parameters);

  /// A step of so many lanes: the parameters have no gradients. Throws InvalidArgument if the last one was not sent.
  void begin_step(Lane lanes);

  /// The next lane, whose gradients count so much.
  void begin_lane(double weight);

  /// The lane's gradient of parameter `i` is complete: takes it. At most once per lane.
  void take(std::size_t i);

  /// Takes what is left, or zero.
  void end_lane();

  bool in_lane() const { return in_lane_; }
  bool complete() const { return next_ == sums_.size(); }  ///< all lanes are summed

 private:
  torch::Tensor buffer(std::size_t level, std::size_t i);
  void add(std::size_t i);

  GradientBuckets& buckets_;
  std::vector<torch::Tensor> parameters_;
  std::vector<LaneSum> sums_;  // by lane of this rank
  std::size_t next_ = 0;       // the lane that is computed, or will be next
  bool in_lane_ = false;
  double weight_ = 1;
  std::vector<bool> taken_;                          // by parameter, in this lane
  std::vector<std::vector<torch::Tensor>> scratch_;  // level - 1, parameter: sums of right subtrees
};

}  // namespace trireme::dist
