#pragma once

#include <optional>
#include <vector>

#include <torch/types.h>

namespace trireme::dist {

/// Stand-ins for gradients that are on their way to the others. Whatever is done with one, by torch's own functions too
/// (clip_grad_norm_, the inner optimizer), throws InvalidArgument that says what to call instead: to change a gradient
/// while it is summed would make the ranks drift apart, to read it would give anything. Counters of versions would not
/// notice: torch clips `gradient.data()`, which has a counter of its own. Not thread-safe.
class GradientGuards {
 public:
  explicit GradientGuards(std::vector<torch::Tensor> parameters);
  ~GradientGuards() { lift(); }
  GradientGuards(const GradientGuards&) = delete;
  GradientGuards& operator=(const GradientGuards&) = delete;

  /// Takes the gradient of parameter `i` away from the program, unless that is done already.
  void put(std::size_t i);
  void put_all();

  /// Gives all back. Returns the first parameter whose gradient the program has replaced by another meanwhile.
  std::optional<std::size_t> lift();

 private:
  struct Guard {
    torch::Tensor stand_in = {};
    torch::Tensor gradient = {};  // what was there
    bool in_place = false;
  };

  std::vector<torch::Tensor> parameters_;
  std::vector<Guard> guards_;  // by parameter
};

}  // namespace trireme::dist
