#include "trireme/fused.h"

#include <ATen/ATen.h>

#include <torch/autograd.h>
#include <torch/types.h>

#include "tensor/device/device_kernels.h"
#include "tensor/maybe_tensor.h"
#include "tensor/precision.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  /// Where there is no branch the result is the normalised alone.
  static variable_list forward(AutogradContext* ctx, const torch::Tensor& x, const MaybeTensor& given_branch,
                               const torch::Tensor& scale, const torch::Tensor& offset, double epsilon,
                               torch::ScalarType type) {
    const torch::Tensor branch = given_branch ? *given_branch : torch::Tensor();
    const device::Normed normed = device::layer_norm(x, branch, scale, offset, epsilon, type);
    ctx->save_for_backward({normed.sum, normed.mean, normed.inverse, scale});
    ctx->saved_data["branch"] = branch.defined();
    ctx->set_materialize_grads(false);
    if (!branch.defined()) return {normed.out};
    return {normed.out, normed.sum};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const bool branch = ctx->saved_data["branch"].toBool();
    const torch::Tensor of_sum = branch ? gradients[1] : torch::Tensor();
    variable_list result(6);
    if (!gradients[0].defined()) {  // the normalised was not used
      result[0] = of_sum;
      if (branch) result[1] = of_sum;
      return result;
    }
    const device::Normed normed{.sum = saved[0], .out = {}, .mean = saved[1], .inverse = saved[2]};
    device::NormGradients found = device::layer_norm_backward(gradients[0], of_sum, normed, saved[3], branch);
    result[0] = found.x;
    result[1] = found.branch;
    result[2] = found.scale;
    result[3] = found.offset;
    return result;
  }
};

class EntropyFunction : public torch::autograd::Function<EntropyFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& logits, const torch::Tensor& targets) {
    const device::Entropy entropy = device::cross_entropy(logits, targets);
    ctx->save_for_backward({logits, targets, entropy.log_sum});
    return entropy.loss.mean();
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    torch::Tensor logits = saved[0].detach();
    device::cross_entropy_backward(logits, saved[1], saved[2], gradients[0]);
    return {logits, {}};
  }
};

class EntropyAtOnceFunction : public torch::autograd::Function<EntropyAtOnceFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& logits, const torch::Tensor& targets,
                               double factor) {
    torch::Tensor gradient = logits.detach();
    const torch::Tensor loss = device::cross_entropy_at_once(gradient, targets, static_cast<float>(factor));
    ctx->save_for_backward({gradient, targets});
    ctx->saved_data["factor"] = factor;
    return loss.mean();
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    torch::Tensor gradient = saved[0];
    const auto factor = static_cast<float>(ctx->saved_data["factor"].toDouble());
    device::rescale_entropy_gradient(gradient, saved[1], factor, gradients[0]);
    return {gradient, {}, {}};
  }
};

torch::ScalarType result_type(const torch::Tensor& x) { return lower_precision(x.device()).value_or(x.scalar_type()); }

}  // namespace

AddedNorm add_layer_norm(const torch::Tensor& x, const torch::Tensor& branch, const torch::Tensor& scale,
                         const torch::Tensor& offset, double epsilon) {
  if (device::can_normalise(x, branch, scale, result_type(x))) {
    const variable_list both = NormFunction::apply(x, maybe(branch), scale, offset, epsilon, result_type(x));
    return {.sum = both[1], .normed = both[0]};
  }
  const torch::Tensor sum = x + branch;
  return {.sum = sum, .normed = layer_norm(sum, scale, offset, epsilon)};
}

bool adds_when_normalising(const torch::Tensor& x, const torch::Tensor& branch) {
  return device::can_normalise(x, branch, result_type(x));
}

torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& scale, const torch::Tensor& offset,
                         double epsilon) {
  if (device::can_normalise(x, {}, scale, result_type(x))) {
    return NormFunction::apply(x, MaybeTensor(), scale, offset, epsilon, result_type(x))[0];
  }
  return at::layer_norm(x, scale.sizes(), scale, offset, epsilon);
}

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets) {
  if (device::can_compare(logits, targets)) return EntropyFunction::apply(logits, targets);
  return at::cross_entropy_loss(logits.to(torch::kFloat32), targets);
}

torch::Tensor last_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets, double factor) {
  const bool differentiated = torch::GradMode::is_enabled() && logits.requires_grad() && factor != 0;
  if (!differentiated || !device::can_compare(logits, targets)) return cross_entropy(logits, targets);
  return EntropyAtOnceFunction::apply(logits, targets, factor);
}

}  // namespace trireme
