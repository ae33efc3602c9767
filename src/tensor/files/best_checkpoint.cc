#include <cmath>

#include <fmt/format.h>

#include "trireme/checkpoint.h"

namespace trireme {
bool BestCheckpoint::offer(const torch::nn::Module& module, double metric, const std::string& name) {
  const bool better = !metric_ || (best_ == Best::kHighest ? metric > *metric_ : metric < *metric_);
  if (std::isnan(metric) || !better) return false;
  save_model(module, path_, {{name, fmt::format("{}", metric)}});
  metric_ = metric;
  return true;
}

}  // namespace trireme
