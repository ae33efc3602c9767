#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::app {

/// What `trireme plan --calibrate` wants to know of a model.
struct LayerTimesRequest {
  std::string model;
  std::string precision = "fp32";
  std::vector<std::int64_t> shape;  ///< of a sample: one size for tokens, else of an image or of numbers
  bool tokens = false;              ///< a language model: `shape` is the length that it sees
  std::int64_t classes = 0;         ///< outputs; for tokens, the vocabulary
  std::vector<std::size_t> like;    ///< by layer: the first layer that costs the same, itself or one before it
  std::uint64_t most_samples = 16;  ///< layers are timed with 1, 2, 4, ... samples, at most so many
  double seconds = 2;               ///< that it may take, about: it stops with fewer samples
  int threads = 1;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerTimesRequest, model, precision, shape, tokens, classes, like, most_samples,
                                   seconds, threads)

/// Computes a model's layers forward and backward, those that are alike once, and prints one line of JSON on standard
/// output: `samples`, and for each of them by layer `[forward, backward]` in seconds; `update_seconds` of Adam per
/// parameter, `copy_seconds` per byte. Throws InvalidArgument if the model is not made of layers, or if its layers are
/// not as many as `like` says.
void time_layers(const LayerTimesRequest& request);

}  // namespace trireme::app
