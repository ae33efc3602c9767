#pragma once

#include <string>
#include <vector>

#include <torch/types.h>

#include "observe/histogram.h"
#include "train/compute/gradient_sink.h"

namespace trireme {

/// Looks at each gradient on its way to where it goes. For the steps of which somebody wants histograms: all others
/// spare it.
class HistogramSink final : public GradientSink {
 public:
  /// `samples` is what the gradients are sums over; `device` is where they may be. `to` outlives it.
  HistogramSink(GradientSink& to, double samples, torch::Device device) : to_(to), samples_(samples), device_(device) {}

  std::span<float> gradient(std::size_t i) override { return to_.gradient(i); }
  bool on_device() const override { return to_.on_device(); }
  void add(std::size_t i) override;
  void skip_pass() override { to_.skip_pass(); }
  Lane most_lanes() const override { return to_.most_lanes(); }
  std::optional<std::span<float>> buffer_sums() override { return to_.buffer_sums(); }
  float loss_scale() const override { return to_.loss_scale(); }

  /// Returns those of the mean gradients over this worker's samples, by parameter.
  const std::vector<observe::Histogram>& histograms() const { return histograms_; }

 private:
  GradientSink& to_;
  const double samples_;
  const torch::Device device_;
  std::vector<observe::Histogram> histograms_;
};

}  // namespace trireme
