#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

/// While it lives, the random numbers of each layer that this thread computes depend on (seed, the layer's name) alone:
/// dropout is the same whichever layers are computed here, or were before. Without one the layers draw from torch's
/// default generator as it is. Scopes nest; the inner one counts.
class LaneSeed {
 public:
  explicit LaneSeed(std::uint64_t seed);
  ~LaneSeed();
  LaneSeed(const LaneSeed&) = delete;
  LaneSeed& operator=(const LaneSeed&) = delete;

 private:
  std::optional<std::uint64_t> outer_;
};

/// Returns the seed of part `part` of a lane: lanes of one part have (seed, step, lane) alone.
std::uint64_t lane_seed(std::uint64_t seed, std::uint64_t step, std::uint64_t lane, std::uint64_t part = 0);

/// While it lives, layers that this thread computes do not seed generators, which cannot be done while the work of a
/// GPU is recorded; only for models that draw no random numbers.
class WithoutSeeds {
 public:
  WithoutSeeds();
  ~WithoutSeeds();
  WithoutSeeds(const WithoutSeeds&) = delete;
  WithoutSeeds& operator=(const WithoutSeeds&) = delete;
};

/// While it lives, finds out whether what this thread computes draws random numbers on a device. One at a time.
class RandomWatch {
 public:
  explicit RandomWatch(const at::Device& device);
  ~RandomWatch();
  RandomWatch(const RandomWatch&) = delete;
  RandomWatch& operator=(const RandomWatch&) = delete;

  /// Since its construction.
  bool drawn();

 private:
  at::Device device_;
  bool drawn_ = false;
};

namespace models {

/// A layer's forward on this thread. Within a LaneSeed it seeds torch's default generators, from which modules of
/// others draw, and has seeds for ours: threads that compute at the same time disturb only the former.
class LayerSeed {
 public:
  explicit LayerSeed(const std::string& layer);
  ~LayerSeed();
  LayerSeed(const LayerSeed&) = delete;
  LayerSeed& operator=(const LayerSeed&) = delete;

  /// The seed of the layer that this thread computes; nullopt where there is none: use torch's generator.
  static std::optional<std::uint64_t> seed();

  /// Another one from it for each call: (seed, 0), (seed, 1), ...
  static std::optional<std::uint64_t> next();

 private:
  std::optional<std::uint64_t> outer_seed_;
  std::uint64_t outer_drawn_;
};

/// Mixes a number and a name into a seed; the same on every machine.
std::uint64_t mix_name(std::uint64_t seed, const std::string& name);

/// Sets a share `rate` of the elements to zero, at random, and scales the rest, if `training`. Where the layer has a
/// seed it chooses them by their place alone (tensor_parallel/dropout_mask.h): the same however the layer is divided.
at::Tensor dropout(const at::Tensor& x, double rate, bool training);

}  // namespace models
}  // namespace trireme
