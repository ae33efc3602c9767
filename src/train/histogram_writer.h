#pragma once

#include <filesystem>

#include "trireme/model.h"

#include "observe/tensorboard.h"
#include "train/histogram_sink.h"

namespace trireme {

/// Writes histograms of the parameters and of their gradients for TensorBoard, on the chief. Used by the training
/// thread.
class HistogramWriter {
 public:
  /// A file in `folder`, of a run that goes on after step `after`. Throws IoError.
  HistogramWriter(const std::filesystem::path& folder, Step after);

  /// After `step` was made: "weights/fc1.weight", "gradients/fc1.weight".
  void write(const Model& model, const HistogramSink& gradients, Step step);

 private:
  observe::EventFile file_;
};

}  // namespace trireme
