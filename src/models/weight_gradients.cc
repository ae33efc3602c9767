#include "models/weight_gradients.h"

#include <utility>

namespace trireme::models {
namespace {

WeightGradients::Ptr& gradients_of_thread() {
  thread_local WeightGradients::Ptr gradients;
  return gradients;
}

}  // namespace

WeightGradients::Scope::Scope(Ptr gradients) : outer_(std::exchange(gradients_of_thread(), std::move(gradients))) {}

WeightGradients::Scope::~Scope() { gradients_of_thread() = std::move(outer_); }

WeightGradients::Ptr WeightGradients::current() { return gradients_of_thread(); }

void WeightGradients::push(std::vector<torch::Tensor> parameters, Compute compute) {
  left_.push_back({std::move(parameters), std::move(compute)});
}

void WeightGradients::run(const OnGradient& on_gradient) {
  const torch::NoGradGuard no_grad;
  for (Left& left : std::exchange(left_, {})) {
    const Left now = std::move(left);
    const std::vector<torch::Tensor> gradients = now.compute();
    for (std::size_t i = 0; i < gradients.size(); ++i) on_gradient(now.parameters[i], gradients[i]);
  }
}

}  // namespace trireme::models
