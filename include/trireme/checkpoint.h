#pragma once

// Models in files that other programs read. The state of a whole run is saved and restored by Trainer itself
// (CheckpointOptions in trainer.h); `trireme ckpt` looks at such checkpoints and converts them.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <torch/torch.h>

namespace trireme {

/// Writes all parameters and buffers of `module` as safetensors, with `metadata`; a reader sees the old file or the new
/// one. Throws InvalidArgument for types that such files do not know, IoError.
void save_model(const std::filesystem::path& path, const torch::nn::Module& module,
                const std::map<std::string, std::string>& metadata = {});

/// Keeps the model with the best metric so far, as safetensors: for loops of your own. One rank uses it.
class BestCheckpoint {
 public:
  enum class Best { kHighest, kLowest };

  explicit BestCheckpoint(std::filesystem::path path, Best best = Best::kHighest)
      : path_(std::move(path)), best_(best) {}

  /// Saves `module` if `metric` is better than all before; whether it was. A metric that is not a number never is.
  /// `name` and the metric stand in the file's metadata. Throws IoError; the file is then the one before.
  bool offer(const torch::nn::Module& module, double metric, const std::string& name = "metric");

  std::optional<double> metric() const { return metric_; }  ///< of the model in the file; nothing: there is none yet
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Best best_;
  std::optional<double> metric_;
};

}  // namespace trireme
