#include "train/compute/gradient_hooks.h"

#include <utility>

#include "tensor/gradient_hook.h"

namespace trireme {

struct GradientHooks::Shared {
  const OnGradient* on_gradient = nullptr;  // set during backward
  std::vector<bool> seen;
  std::vector<torch::Tensor> parameters;

  void take(std::size_t index) {
    if (on_gradient == nullptr) return;  // somebody else's backward
    torch::Tensor gradient = parameters[index].grad();
    parameters[index].mutable_grad().reset();
    seen[index] = true;
    (*on_gradient)(index, gradient);
  }
};

GradientHooks::GradientHooks(std::vector<torch::Tensor> parameters)
    : parameters_(std::move(parameters)), shared_(std::make_shared<Shared>()) {
  shared_->parameters = parameters_;
  shared_->seen.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    accumulators_.push_back(after_accumulation(parameters_[i], [shared = std::weak_ptr(shared_), i] {
      if (const auto alive = shared.lock()) alive->take(i);
    }));
  }
}

GradientHooks::~GradientHooks() = default;

void GradientHooks::start_anew() {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void GradientHooks::accumulate(const torch::Tensor& loss) {
  if (!std::exchange(accumulating_, false)) start_anew();
  loss.backward();
  accumulating_ = true;  // not if that threw
}

void GradientHooks::backward(const torch::Tensor& loss, const OnGradient& on_gradient) {
  if (!std::exchange(accumulating_, false)) start_anew();
  std::fill(shared_->seen.begin(), shared_->seen.end(), false);
  shared_->on_gradient = &on_gradient;
  try {
    loss.backward();
    for (std::size_t i = parameters_.size(); i-- > 0;) {
      if (!shared_->seen[i]) shared_->take(i);
    }
  } catch (...) {
    shared_->on_gradient = nullptr;
    throw;
  }
  shared_->on_gradient = nullptr;
}

}  // namespace trireme
