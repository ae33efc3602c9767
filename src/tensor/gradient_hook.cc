#include "tensor/gradient_hook.h"

#include "base/error.h"

namespace trireme {
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

std::shared_ptr<torch::autograd::Node> after_accumulation(const torch::Tensor& leaf, std::function<void()> run) {
  auto accumulator = torch::autograd::impl::grad_accumulator(leaf);
  TRIREME_CHECK(accumulator != nullptr, "a tensor that is no leaf, or wants no gradient");
  accumulator->add_post_hook(std::make_unique<Hook>(std::move(run)));
  return accumulator;
}

}  // namespace trireme
