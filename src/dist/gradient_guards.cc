#include "dist/gradient_guards.h"

#include <utility>

#include <torch/library.h>

#include "base/error.h"

namespace trireme::dist {
namespace {

void refuse(const c10::OperatorHandle& /*operation*/, torch::jit::Stack* /*arguments*/) {
  fail<InvalidArgument>(
      "gradients are on their way to the other ranks between backward() and step(): call optimizer.clip_norm(1.0) to "
      "clip them, or optimizer.synchronize() before you read or change them yourself; for several backward passes in a "
      "step, set accumulate to how many there are");
}

// The key that comes before all others and that no kernel of torch has: meant for tests of dispatching, which is what
// this is, at run time.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

// NOLINTNEXTLINE: torch's macro
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, operations) {
  operations.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

/// A tensor of that shape without memory.
torch::Tensor make_stand_in(const torch::Tensor& parameter) {
  auto tensor = c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(kKey), parameter.dtype(), parameter.device());
  tensor->set_sizes_contiguous(parameter.sizes());
  return torch::Tensor(std::move(tensor));
}

}  // namespace

GradientGuards::GradientGuards(std::vector<torch::Tensor> parameters) : parameters_(std::move(parameters)) {
  for (const torch::Tensor& parameter : parameters_) guards_.push_back({.stand_in = make_stand_in(parameter)});
}

void GradientGuards::put(std::size_t i) {
  Guard& guard = guards_[i];
  if (std::exchange(guard.in_place, true)) return;
  guard.gradient = std::exchange(parameters_[i].mutable_grad(), guard.stand_in);
}

void GradientGuards::put_all() {
  for (std::size_t i = 0; i < guards_.size(); ++i) put(i);
}

std::optional<std::size_t> GradientGuards::lift() {
  std::optional<std::size_t> replaced;
  for (std::size_t i = guards_.size(); i-- > 0;) {
    Guard& guard = guards_[i];
    if (!std::exchange(guard.in_place, false)) continue;
    torch::Tensor& gradient = parameters_[i].mutable_grad();
    if (!gradient.is_same(guard.stand_in)) replaced = i;
    gradient = std::exchange(guard.gradient, {});
  }
  return replaced;
}

}  // namespace trireme::dist
