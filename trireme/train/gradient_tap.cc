#include "trireme/train/gradient_tap.h"

#include "trireme/base/error.h"

namespace trireme {

struct GradientTap::Shared {
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

namespace {

class Hook final : public torch::autograd::FunctionPostHook {
 public:
  explicit Hook(std::function<void()> run) : run_(std::move(run)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    run_();
    return outputs;
  }

 private:
  std::function<void()> run_;
};

}  // namespace

GradientTap::GradientTap(std::vector<torch::Tensor> parameters)
    : parameters_(std::move(parameters)), shared_(std::make_shared<Shared>()) {
  shared_->parameters = parameters_;
  shared_->seen.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[i]);
    TRIREME_CHECK(accumulator != nullptr, "parameter {} is not a leaf", i);
    accumulator->add_post_hook(std::make_unique<Hook>([shared = std::weak_ptr(shared_), i] {
      if (const auto alive = shared.lock()) alive->take(i);
    }));
    accumulators_.push_back(std::move(accumulator));
  }
}

GradientTap::~GradientTap() = default;

void GradientTap::backward(const torch::Tensor& loss, const OnGradient& on_gradient) {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  std::fill(shared_->seen.begin(), shared_->seen.end(), false);
  shared_->on_gradient = &on_gradient;
  try {
    loss.backward();
  } catch (...) {
    shared_->on_gradient = nullptr;
    throw;
  }
  shared_->on_gradient = nullptr;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (!shared_->seen[i]) on_gradient(i, torch::Tensor());
  }
}

}  // namespace trireme
