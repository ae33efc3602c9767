#include "tensor_parallel/linked.h"

namespace trireme::parallel {
namespace {

constexpr const char* kBackward = "backward";

/// Keeps a function where autograd keeps what a backward needs.
struct KeptBackward : torch::CustomClassHolder {
  explicit KeptBackward(LinkedFunction::Backward function) : run(std::move(function)) {}
  LinkedFunction::Backward run;
};

class Linked : public torch::autograd::Function<Linked> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                                                const LinkedFunction& function) {
    context->saved_data[kBackward] = c10::IValue::make_capsule(c10::make_intrusive<KeptBackward>(function.backward));
    return function.forward(context, inputs.vec());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto kept = context->saved_data[kBackward].toCapsule();
    Tensors result = static_cast<KeptBackward*>(kept.get())->run(context, gradients);
    result.emplace_back();  // the function has no gradient
    return result;
  }
};

}  // namespace

Tensors call_linked(const Tensors& inputs, const LinkedFunction& function) {
  return Linked::apply(at::TensorList(inputs), function);
}

}  // namespace trireme::parallel
