#pragma once

namespace trireme {

/// While it lives, this thread computes a loss that will be multiplied by `factor` before it is differentiated: who
/// knows can compute gradients early (last_cross_entropy). A hint: gradients are right whatever it says. Scopes nest.
class LossFactor {
 public:
  explicit LossFactor(double factor);
  ~LossFactor();
  LossFactor(const LossFactor&) = delete;
  LossFactor& operator=(const LossFactor&) = delete;

  /// Of the innermost scope; 1 where there is none.
  static double current();

 private:
  double outer_;
};

}  // namespace trireme
