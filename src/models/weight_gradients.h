#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

#include <torch/types.h>

namespace trireme::models {

/// Gradients of parameters that a backward pass leaves for later. A pipeline without bubbles computes the gradient of a
/// stage's input first, for which the stage before waits, and that of its weights when there is nothing else to do.
///
/// The functions of functions.h note at their forward which object is the thread's current one, and ask it in their
/// backward; what they compute is the same in both cases, bit for bit. Modules that do not use them compute their
/// weights' gradients with the input's: correct, but nothing is left for later. Not thread-safe: one pass at a time.
class WeightGradients : public torch::CustomClassHolder {
 public:
  using Ptr = c10::intrusive_ptr<WeightGradients>;
  using Compute = std::function<std::vector<torch::Tensor>()>;
  using OnGradient = std::function<void(const torch::Tensor& parameter, const torch::Tensor& gradient)>;

  /// Forward passes of this thread belong to `gradients` while it lives.
  class Scope {
   public:
    explicit Scope(Ptr gradients);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ptr outer_;
  };

  /// The one of this thread's scope; null outside.
  static Ptr current();

  /// Whether a backward pass leaves gradients here from now on.
  void defer(bool on) { deferring_ = on; }
  bool deferring() const { return deferring_; }

  /// `compute` returns a gradient for each of `parameters`, which are leaves.
  void push(std::vector<torch::Tensor> parameters, Compute compute);

  /// Computes what was left, in the order of the pushes; each pass's memory is free once it is done.
  void run(const OnGradient& on_gradient);

  bool empty() const { return left_.empty(); }

 private:
  struct Left {
    std::vector<torch::Tensor> parameters;
    Compute compute;
  };

  bool deferring_ = false;
  std::vector<Left> left_;
};

}  // namespace trireme::models
