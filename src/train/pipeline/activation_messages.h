#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/layers.h"

#include "pipeline/run_schedule.h"

namespace trireme::parallel {

/// One of the tensors of a message.
struct TensorLayout {
  std::string name = {};
  torch::ScalarType dtype = torch::kFloat32;
  std::vector<std::int64_t> shape = {};
  bool wants_gradient = false;

  bool operator==(const TensorLayout&) const = default;
};

using ActivationLayout = std::vector<TensorLayout>;

/// The layouts that this rank has sent and received, for as long as its group lives. A layout depends on the stage and
/// the shapes of the samples (the key); it travels when a key is new, which sender and receiver know alike.
class KnownLayouts {
 public:
  struct Key {
    bool forward = true;
    std::uint32_t stage = 0;
    std::string samples = {};  ///< their shapes, and whether gradients are computed

    auto operator<=>(const Key&) const = default;
  };

  /// Returns whether `layout` has to be sent ahead. Throws InvalidArgument naming both if another one was sent for
  /// samples of this shape: the receiver could not know.
  bool is_new(const Key& key, const ActivationLayout& layout);

  void learn(const Key& key, ActivationLayout layout);
  const ActivationLayout* find(const Key& key) const;

 private:
  std::map<Key, ActivationLayout> sent_;
  std::map<Key, ActivationLayout> received_;
};

/// Activations, and their gradients, as messages: what stages and links hand each other in one step. Tensors travel
/// from where they are, without a copy where they are contiguous and on the host.
class ActivationMessages {
 public:
  /// `known` outlives it. `samples`: by micro-batch, see KnownLayouts::Key.
  ActivationMessages(KnownLayouts& known, std::vector<std::string> samples, torch::Device device)
      : known_(known), samples_(std::move(samples)), device_(device) {}

  std::optional<std::vector<collective::Array>> memory_for(const pipeline::Message& message);
  void learn(const pipeline::Message& message, const pipeline::Layout& layout);

  /// Hands over what this rank made: to `outgoing`, or to `take` if the next stage is here too.
  void put(const pipeline::Message& message, Activations activations);

  /// Returns a message that was received, or put: detached, on the device; those that want gradients require them.
  Activations take(const pipeline::Message& message);

  pipeline::Outgoing outgoing(const pipeline::Message& message);

 private:
  KnownLayouts::Key key_of(const pipeline::Message& message) const;

  KnownLayouts& known_;
  std::vector<std::string> samples_;
  torch::Device device_;
  std::map<pipeline::Message, Activations> tensors_;  // here, made or received
};

/// Returns the shapes as "8x128 8": a key of what depends on them.
std::string shapes_text(const std::vector<std::vector<std::int64_t>>& shapes);

}  // namespace trireme::parallel
