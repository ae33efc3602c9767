#pragma once

// Models in files that other programs read. The state of a whole run is saved and restored by Trainer itself, and by
// dist::State for loops of your own; `trireme ckpt` looks at such checkpoints and converts them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <torch/nn/module.h>

#include "trireme/types.h"

namespace trireme {

/// When the state of a run is saved, and what is kept.
struct CheckpointOptions {
  std::optional<Step> every = {};      ///< steps; nullopt = once per epoch, 0 = never, not even at the end
  std::uint32_t keep_last = 3;         ///< how many are kept
  std::uint32_t keep_best = 1;         ///< besides these: how many of the best test accuracy
  std::uint64_t bytes_per_second = 0;  ///< at most, per process; 0 = no limit
};

/// Writes all parameters and buffers of `module` as safetensors, with `metadata`, and replaces an existing file
/// atomically. Throws InvalidArgument for element types that safetensors does not have, IoError.
void save_model(const torch::nn::Module& module, const std::filesystem::path& path,
                const std::map<std::string, std::string>& metadata = {});

struct LoadOptions {
  /// Only tensors whose names begin with it are taken, under the rest of their names, and what they do not fill keeps
  /// its values. Empty: all are taken, and all of the model must be among them.
  std::string prefix = {};
};

struct LoadReport {
  std::size_t loaded = 0;  ///< tensors of the model that were filled
  std::size_t of = 0;      ///< that it has: parameters and buffers
};

/// Fills the parameters and buffers of `module`, on whatever device they are, from `path`: a .safetensors file, the
/// folder of a checkpoint, or that of a run, of which the newest complete checkpoint is meant. Floating-point types are
/// converted to the model's. GPT-2 as Hugging Face publishes it fits the models gpt2 to gpt2-xl: transposed weights are
/// turned, masks and the tied last layer left out, and a shorter context takes the first positions.
///
/// Throws InvalidArgument that names tensors that are missing, surplus, or of another shape or type, or says that there
/// is no such file; Corrupt, IoError. The module is then unchanged.
LoadReport load_model(torch::nn::Module& module, const std::filesystem::path& path, const LoadOptions& options = {});

/// Keeps the model with the best metric so far in a safetensors file, for loops of your own. Use it on one rank only.
class BestCheckpoint {
 public:
  enum class Best { kHighest, kLowest };

  explicit BestCheckpoint(std::filesystem::path path, Best best = Best::kHighest)
      : path_(std::move(path)), best_(best) {}

  /// Saves `module` if `metric` is better than all before, and returns whether it did. NaN is never better. `name` and
  /// the metric go into the file's metadata. Throws IoError, and then the previous file stays.
  bool offer(const torch::nn::Module& module, double metric, const std::string& name = "metric");

  std::optional<double> metric() const { return metric_; }  ///< of the model in the file; nullopt = none yet
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Best best_;
  std::optional<double> metric_;
};

}  // namespace trireme
