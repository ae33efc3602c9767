#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/cost/collective_time.h"
#include "plan/cost/memory.h"
#include "plan/cost/model_cost.h"

namespace trireme::plan {

/// How long a layer takes for some samples, in seconds.
struct LayerTiming {
  double forward = 0;
  double backward = 0;  ///< both gradients

  bool operator==(const LayerTiming&) const = default;
};

/// What was measured on a machine: how fast its processes compute a model's layers, and talk to each other.
struct Calibration {
  std::string model;          ///< with its settings
  std::string sample;         ///< see ModelCost
  std::uint64_t classes = 0;  ///< see ModelInput
  Precision precision = Precision::kFp32;
  std::uint32_t threads = 1;                     ///< of each process
  std::uint32_t cores = 1;                       ///< of the machine
  double memory = 0;                             ///< bytes that were free on it
  double flops = 0;                              ///< per second and process, over the whole model
  bool fused_attention = false;                  ///< see ModelInput
  std::vector<double> samples;                   ///< for which layers were timed, ascending
  std::vector<std::vector<LayerTiming>> layers;  ///< [samples][layer], with as many processes as cores
  double update_seconds = 0;                     ///< of the optimizer (Adam), per parameter
  double copy_seconds = 0;                       ///< to copy a byte in memory
  Link link;                                     ///< between two processes

  /// Whether the times of layers are those of this model.
  bool times(const ModelCost& cost, Precision of) const;

  /// Returns what layer `index` takes for `count` samples: what lies between two that were measured is interpolated,
  /// what lies beyond them goes on as the two nearest. Only where `times`.
  LayerTiming timing(std::size_t index, double count) const;
};

/// As text, JSON, and back. The second throws InvalidArgument, with what is wrong, unless it is what the first wrote.
std::string to_text(const Calibration& calibration);
Calibration parse_calibration(const std::string& text);

}  // namespace trireme::plan
