#include "models/functions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/version.h>

#include "models/weight_gradients.h"
#include "tensor/device/device_kernels.h"
#include "tensor/device/products.h"
#include "tensor/maybe_tensor.h"
#include "tensor/precision.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// `tensor` in the precision that products are computed in.
torch::Tensor in_precision(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) return tensor;
  const auto precision = lower_precision(tensor.device());
  return precision ? tensor.to(*precision) : tensor;
}

torch::Tensor rows_of(const torch::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// `rows`, as what `x` became.
torch::Tensor shaped_as(const torch::Tensor& rows, const torch::Tensor& x) {
  std::vector<std::int64_t> shape(x.sizes().begin(), x.sizes().end());
  shape.back() = rows.size(1);
  return rows.view(shape);
}

/// input × weightᵀ + bias, all in the precision of products.
torch::Tensor multiply(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
  const torch::Tensor rows = rows_of(input);
  if (!device::can_multiply(rows, weight.size(0))) return at::linear(input, weight, bias);
  return shaped_as(device::linear(rows, weight, bias), input);
}

/// The gradient of an input: that of the outputs, rows × outputs, with the weight.
torch::Tensor input_gradient(const torch::Tensor& gradient, const torch::Tensor& weight) {
  const torch::Tensor lower = weight.to(gradient.scalar_type());
  return device::can_multiply(gradient, weight.size(1)) ? device::input_gradient(gradient, lower) : gradient.mm(lower);
}

/// The gradient of a weight: that of the outputs, rows × outputs, with the inputs, rows × inputs.
torch::Tensor weight_gradient(const torch::Tensor& gradient, const torch::Tensor& input, torch::ScalarType type) {
  if (type == torch::kFloat32 && device::can_multiply(gradient, input.size(1))) {
    return device::weight_gradient(gradient, input);
  }
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8)
  // The products are added in float32 anyway, so that is what they give, not rounded and converted again.
  const bool wider = gradient.is_cuda() && type == torch::kFloat32 && gradient.scalar_type() != type;
  if (wider) return at::mm(gradient.t(), input, type);
#endif
  return gradient.t().mm(input).to(type);
}

/// Where copies in lower precision are cheap to keep, backward takes those of forward; elsewhere it converts again.
torch::Tensor kept(const torch::Tensor& weight, const torch::Tensor& lower) { return weight.is_cpu() ? weight : lower; }

/// The gradient of a bias: the sums of the columns.
torch::Tensor bias_gradient(const torch::Tensor& gradient, torch::ScalarType type) {
  const torch::Tensor sums = device::can_sum_columns(gradient) ? device::column_sums(gradient) : gradient.sum(0);
  return sums.to(type);
}

/// Keeps, in `ctx`, where gradients of weights may be left.
void keep_gradients(AutogradContext* ctx) {
  if (auto gradients = WeightGradients::current()) ctx->saved_data["later"] = at::IValue::make_capsule(gradients);
}

/// Returns the gradients of `parameters`, computed now, or undefined ones if they are left for later. Those that are no
/// leaves have more of the graph behind them, so they cannot wait.
variable_list now_or_later(AutogradContext* ctx, const std::vector<torch::Tensor>& parameters,
                           WeightGradients::Compute compute) {
  const auto kept = ctx->saved_data.find("later");
  if (kept != ctx->saved_data.end()) {
    const auto later = c10::static_intrusive_pointer_cast<WeightGradients>(kept->second.toCapsule());
    const bool leaves = std::ranges::all_of(parameters, [](const torch::Tensor& p) { return p.is_leaf(); });
    if (later->deferring() && leaves) {
      later->push(parameters, std::move(compute));
      return variable_list(parameters.size());
    }
  }
  return compute();
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x, const torch::Tensor& weight,
                               const MaybeTensor& given_bias) {
    const torch::Tensor bias = given_bias ? *given_bias : torch::Tensor();
    const torch::Tensor input = in_precision(x);
    const torch::Tensor lower = in_precision(weight);
    ctx->save_for_backward({input, weight, bias, kept(weight, lower)});
    keep_gradients(ctx);
    return multiply(input, lower, in_precision(bias));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const torch::Tensor& x = saved[0];
    const torch::Tensor& weight = saved[1];
    const torch::Tensor& bias = saved[2];
    const torch::Tensor gradient = rows_of(gradients[0]);
    torch::Tensor of_x;
    if (ctx->needs_input_grad(0)) of_x = input_gradient(gradient, saved[3]).view(x.sizes());
    variable_list result{of_x, {}, {}};
    if (!ctx->needs_input_grad(1)) {
      if (bias.defined() && ctx->needs_input_grad(2)) result[2] = bias_gradient(gradient, bias.scalar_type());
      return result;
    }
    const bool with_bias = bias.defined() && ctx->needs_input_grad(2);
    std::vector<torch::Tensor> parameters{weight};
    if (with_bias) parameters.push_back(bias);
    const auto type = weight.scalar_type();
    const auto compute = [gradient, input = rows_of(x), type, with_bias] {
      std::vector<torch::Tensor> all{weight_gradient(gradient, input, type)};
      if (with_bias) all.push_back(bias_gradient(gradient, type));
      return all;
    };
    const variable_list of_weights = now_or_later(ctx, parameters, compute);
    result[1] = of_weights[0];
    if (with_bias) result[2] = of_weights[1];
    return result;
  }
};

/// Only on a GPU: two layers with a GELU between them, which is a part of the first one's product. Its backward is one
/// pass with the gradient of the bias; as a part of the product, as cuBLASLt has it too, it takes longer.
class FeedForwardFunction : public torch::autograd::Function<FeedForwardFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x, const torch::Tensor& weight1,
                               const torch::Tensor& bias1, const torch::Tensor& weight2, const torch::Tensor& bias2) {
    const torch::Tensor input = rows_of(in_precision(x));
    const torch::Tensor lower1 = in_precision(weight1);
    const torch::Tensor lower2 = in_precision(weight2);
    const device::Activated inner = device::linear_gelu(input, lower1, in_precision(bias1));
    ctx->save_for_backward({input, weight1, bias1, weight2, bias2, lower1, lower2, inner.before, inner.after});
    ctx->saved_data["shape"] = x.sizes().vec();
    keep_gradients(ctx);
    return shaped_as(device::linear(inner.after, lower2, in_precision(bias2)), x);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const torch::Tensor& input = saved[0];
    const torch::Tensor gradient = rows_of(gradients[0]).contiguous();
    const auto [inner, of_bias] = device::gelu_backward(device::input_gradient(gradient, saved[6]), saved[7]);
    variable_list result(5);
    if (ctx->needs_input_grad(0)) {
      result[0] = device::input_gradient(inner, saved[5]).view(ctx->saved_data["shape"].toIntVector());
    }
    differentiate(ctx, 3, saved, gradient, saved[8], {}, result);
    differentiate(ctx, 1, saved, inner, input, of_bias, result);
    return result;
  }

 private:
  /// The gradients of the weight that is the `i`-th input, and of its bias behind it, which may be known.
  static void differentiate(AutogradContext* ctx, std::size_t i, const variable_list& saved,
                            const torch::Tensor& gradient, const torch::Tensor& input, const torch::Tensor& of_bias,
                            variable_list& result) {
    const torch::Tensor& weight = saved[i];
    const auto type = weight.scalar_type();
    const auto bias_gradient_now = [gradient, of_bias, type] {
      return of_bias.defined() ? of_bias.to(type) : bias_gradient(gradient, type);
    };
    if (!ctx->needs_input_grad(i) || !ctx->needs_input_grad(i + 1)) {  // one of them is frozen
      if (ctx->needs_input_grad(i)) result[i] = weight_gradient(gradient, input, type);
      if (ctx->needs_input_grad(i + 1)) result[i + 1] = bias_gradient_now();
      return;
    }
    const auto compute = [gradient, input, type, bias_gradient_now] {
      return std::vector<torch::Tensor>{weight_gradient(gradient, input, type), bias_gradient_now()};
    };
    const variable_list found = now_or_later(ctx, {weight, saved[i + 1]}, compute);
    result[i] = found[0];
    result[i + 1] = found[1];
  }
};

constexpr std::int64_t kRowUnit = 128;  // elements; products are fast where rows are a multiple of it

/// Only on a GPU: a product whose rows, of `outputs` elements, are longer in memory, so that each begins where the
/// hardware wants it. What is beyond their end is zero, forward and backward.
class PaddedLinearFunction : public torch::autograd::Function<PaddedLinearFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x, const torch::Tensor& weight) {
    const torch::Tensor input = in_precision(x).reshape({-1, x.size(-1)});
    const std::int64_t outputs = weight.size(0);
    const std::int64_t padded = (outputs + kRowUnit - 1) / kRowUnit * kRowUnit;
    torch::Tensor wide = torch::empty({padded, weight.size(1)}, input.options());
    wide.narrow(0, 0, outputs).copy_(weight);
    wide.narrow(0, outputs, padded - outputs).zero_();
    ctx->save_for_backward({input, weight, wide});
    keep_gradients(ctx);
    std::vector<std::int64_t> shape(x.sizes().begin(), x.sizes().end());
    ctx->saved_data["shape"] = shape;
    shape.back() = padded;
    return multiply(input, wide, {}).view(shape).narrow(-1, 0, outputs);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const torch::Tensor& input = saved[0];
    const torch::Tensor& weight = saved[1];
    const torch::Tensor gradient = widened(gradients[0], saved[2].size(0));
    variable_list result(2);
    if (ctx->needs_input_grad(0)) {
      result[0] = input_gradient(gradient, saved[2]).view(ctx->saved_data["shape"].toIntVector());
    }
    if (!ctx->needs_input_grad(1)) return result;
    const auto compute = [gradient, input, type = weight.scalar_type(), outputs = weight.size(0)] {
      return std::vector<torch::Tensor>{weight_gradient(gradient, input, type).narrow(0, 0, outputs)};
    };
    result[1] = now_or_later(ctx, {weight}, compute)[0];
    return result;
  }

 private:
  /// `gradient` as rows of `padded` elements: in place where its rows have that room, as those of our cross entropy.
  static torch::Tensor widened(const torch::Tensor& gradient, std::int64_t padded) {
    const std::int64_t outputs = gradient.size(-1);
    const std::int64_t rows = gradient.numel() / outputs;
    const torch::Tensor flat = gradient.reshape({rows, outputs});
    const auto held = static_cast<std::int64_t>(flat.storage().nbytes() / flat.element_size());
    const bool room = flat.stride(1) == 1 && flat.stride(0) == padded && flat.data_ptr() == gradient.data_ptr() &&
                      flat.storage_offset() + rows * padded <= held;
    if (!room) return at::constant_pad_nd(flat, {0, padded - outputs});
    torch::Tensor wide = flat.as_strided({rows, padded}, {padded, 1});
    wide.narrow(1, outputs, padded - outputs).zero_();
    return wide;
  }
};

class ConvolutionFunction : public torch::autograd::Function<ConvolutionFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x, const torch::Tensor& weight,
                               const MaybeTensor& given_bias, std::int64_t stride, std::int64_t padding) {
    const torch::Tensor bias = given_bias ? *given_bias : torch::Tensor();
    const torch::Tensor input = in_precision(x);
    ctx->save_for_backward({input, weight, bias});
    ctx->saved_data["stride"] = stride;
    ctx->saved_data["padding"] = padding;
    keep_gradients(ctx);
    return at::conv2d(input, in_precision(weight), in_precision(bias), stride, padding);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const torch::Tensor& x = saved[0];
    const torch::Tensor& weight = saved[1];
    const torch::Tensor& bias = saved[2];
    const torch::Tensor& gradient = gradients[0];
    const bool with_bias = bias.defined() && ctx->needs_input_grad(2);
    const auto part = [gradient, x, weight, stride = ctx->saved_data["stride"].toInt(),
                       padding = ctx->saved_data["padding"].toInt()](std::array<bool, 3> wanted) {
      const auto type = weight.scalar_type();
      const std::array<std::int64_t, 2> strides{stride, stride};
      const std::array<std::int64_t, 2> paddings{padding, padding};
      const std::array<std::int64_t, 2> ones{1, 1};
      const std::array<std::int64_t, 2> zeros{0, 0};
      const std::array<std::int64_t, 1> outputs{weight.size(0)};
      auto [of_x, of_weight, of_bias] =
          at::convolution_backward(gradient, x, weight.to(gradient.scalar_type()), at::IntArrayRef(outputs), strides,
                                   paddings, ones, /*transposed=*/false, zeros, /*groups=*/1, wanted);
      return std::vector<torch::Tensor>{of_x, of_weight.defined() ? of_weight.to(type) : of_weight,
                                        of_bias.defined() ? of_bias.to(type) : of_bias};
    };
    variable_list result(5);
    if (ctx->needs_input_grad(0)) result[0] = part({true, false, false})[0];
    if (!ctx->needs_input_grad(1)) {
      if (with_bias) result[2] = part({false, false, true})[2];
      return result;
    }
    std::vector<torch::Tensor> parameters{weight};
    if (with_bias) parameters.push_back(bias);
    const variable_list of_weights = now_or_later(ctx, parameters, [part, with_bias] {
      std::vector<torch::Tensor> all = part({false, true, with_bias});
      all.erase(all.begin());
      if (!with_bias) all.pop_back();
      return all;
    });
    result[1] = of_weights[0];
    if (with_bias) result[2] = of_weights[1];
    return result;
  }
};

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& weight, const torch::Tensor& indices) {
    ctx->save_for_backward({weight, indices});
    keep_gradients(ctx);
    return at::embedding(weight, indices);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const torch::Tensor& weight = saved[0];
    const auto compute = [gradient = gradients[0], indices = saved[1], rows = weight.size(0)] {
      return std::vector<torch::Tensor>{
          at::embedding_dense_backward(gradient, indices, rows, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false)};
    };
    return {now_or_later(ctx, {weight}, compute)[0], {}};
  }
};

/// Whether products with this layer's weight can have a GELU as a part of them.
bool fuses(const torch::Tensor& x, const torch::nn::LinearImpl& layer) {
  const auto precision = lower_precision(x.device());
  if (!precision || !device::runs_on(x.device()) || !layer.bias.defined()) return false;
  const std::int64_t rows = x.numel() / x.size(-1);
  return rows % 8 == 0 && layer.weight.size(0) % 8 == 0 && layer.weight.size(1) % 8 == 0;
}

}  // namespace

torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  return LinearFunction::apply(x, weight, maybe(bias));
}

torch::Tensor feed_forward(const torch::Tensor& x, const torch::nn::Linear& first, const torch::nn::Linear& second) {
  if (fuses(x, *first) && fuses(x, *second) && first->weight.size(0) == second->weight.size(1)) {
    return FeedForwardFunction::apply(x, first->weight, first->bias, second->weight, second->bias);
  }
  const torch::Tensor inner = at::gelu(models::linear(x, first->weight, first->bias), "tanh");
  return models::linear(inner, second->weight, second->bias);
}

torch::Tensor wide_linear(const torch::Tensor& x, const torch::Tensor& weight) {
  const bool padded = device::runs_on(x.device()) && weight.size(0) % kRowUnit != 0 && lower_precision(x.device());
  return padded ? PaddedLinearFunction::apply(x, weight) : models::linear(x, weight);
}

torch::Tensor conv2d(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                     ConvolutionShape shape) {
  return ConvolutionFunction::apply(x, weight, maybe(bias), shape.stride, shape.padding);
}

torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& indices) {
  return EmbeddingFunction::apply(weight, indices);
}

}  // namespace trireme::models
