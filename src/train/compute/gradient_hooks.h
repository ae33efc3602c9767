#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <torch/autograd.h>
#include <torch/types.h>

namespace trireme {

/// Hands out each parameter's gradient the moment backward has finished it, while backward goes on with the rest.
///
/// Hooks the nodes that would accumulate into `.grad`; the gradient is given to `on_gradient` and not kept. At that
/// moment the parameter itself is no longer needed by this backward pass: all its uses have been differentiated.
class GradientHooks {
 public:
  using OnGradient = std::function<void(std::size_t index, const torch::Tensor& gradient)>;

  /// `parameters` are leaves that require gradients. The hooks lives as long as they are trained.
  explicit GradientHooks(std::vector<torch::Tensor> parameters);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  /// Runs backward from `loss`; calls `on_gradient` once for every parameter: as they become ready, then, with an
  /// undefined tensor (or what was accumulated), for those that took no part. What it throws comes out of here.
  void backward(const torch::Tensor& loss, const OnGradient& on_gradient);

  /// Runs backward from `loss` and keeps the gradients: the next `backward` adds its own to them before it hands out
  /// the sums.
  void accumulate(const torch::Tensor& loss);

 private:
  struct Shared;

  void start_anew();

  std::vector<torch::Tensor> parameters_;
  std::shared_ptr<Shared> shared_;  // with the hooks, which torch may keep longer than we live
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  bool accumulating_ = false;  // the parameters hold gradients of ours
};

}  // namespace trireme
