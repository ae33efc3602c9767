#include "models/lane_seed.h"

#include <ATen/ATen.h>

#include <utility>

#include <torch/utils.h>

#include "base/random.h"
#include "tensor/device/work_graph.h"
#include "tensor_parallel/dropout_mask.h"

namespace trireme {
namespace {

std::optional<std::uint64_t>& lane_of_thread() {
  thread_local std::optional<std::uint64_t> seed;
  return seed;
}

/// What the layer in progress draws from.
struct LayerOfThread {
  std::optional<std::uint64_t> seed;
  std::uint64_t drawn = 0;
};

LayerOfThread& layer_of_thread() {
  thread_local LayerOfThread layer;
  return layer;
}

bool& without_seeds() {
  thread_local bool without = false;
  return without;
}

RandomWatch*& watch_of_thread() {
  thread_local RandomWatch* watch = nullptr;
  return watch;
}

}  // namespace

WithoutSeeds::WithoutSeeds() { without_seeds() = true; }
WithoutSeeds::~WithoutSeeds() { without_seeds() = false; }

RandomWatch::RandomWatch(const at::Device& device) : device_(device) { watch_of_thread() = this; }
RandomWatch::~RandomWatch() { watch_of_thread() = nullptr; }

/// Seeds start a generator anew: so this is asked for before the next one, too.
bool RandomWatch::drawn() { return drawn_ = drawn_ || device::has_drawn(device_); }

LaneSeed::LaneSeed(std::uint64_t seed) : outer_(std::exchange(lane_of_thread(), seed)) {}

LaneSeed::~LaneSeed() { lane_of_thread() = outer_; }

std::uint64_t lane_seed(std::uint64_t seed, std::uint64_t step, std::uint64_t lane, std::uint64_t part) {
  const std::uint64_t first = mix_seed(seed, step, lane);
  return part == 0 ? first : mix_seed(first, part);
}

namespace models {

LayerSeed::LayerSeed(const std::string& layer)
    : outer_seed_(std::exchange(layer_of_thread().seed, std::nullopt)),
      outer_drawn_(std::exchange(layer_of_thread().drawn, 0)) {
  if (!lane_of_thread()) return;
  layer_of_thread().seed = mix_name(*lane_of_thread(), layer);
  if (watch_of_thread() != nullptr) watch_of_thread()->drawn();
  if (without_seeds()) return;
  torch::manual_seed(*layer_of_thread().seed);
}

LayerSeed::~LayerSeed() { layer_of_thread() = {outer_seed_, outer_drawn_}; }

std::optional<std::uint64_t> LayerSeed::seed() { return layer_of_thread().seed; }

std::optional<std::uint64_t> LayerSeed::next() {
  LayerOfThread& layer = layer_of_thread();
  if (!layer.seed) return std::nullopt;
  return mix_seed(*layer.seed, layer.drawn++);
}

std::uint64_t mix_name(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  return mix_seed(seed, hash);
}

at::Tensor dropout(const at::Tensor& x, double rate, bool training) {
  if (!training || rate == 0) return x;
  const auto seed = x.is_cpu() ? LayerSeed::next() : std::nullopt;
  if (!seed) return at::dropout(x, rate, /*train=*/true);
  return x * parallel::dropout_mask(x, rate, *seed);
}

}  // namespace models
}  // namespace trireme
