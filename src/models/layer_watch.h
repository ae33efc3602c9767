#pragma once

#include <cstddef>

#include "trireme/layers.h"

namespace trireme {

/// Is told when a layer is about to be computed, and when it was: for what a layer needs only then.
class LayerWatch {
 public:
  virtual ~LayerWatch() = default;

  virtual void before_forward(std::size_t layer) = 0;
  virtual void after_forward(std::size_t layer) = 0;

  /// Its backward begins: those of all later layers have ended. On the thread that runs backward.
  virtual void before_backward(std::size_t layer) = 0;
};

namespace models {

/// Returns the activations that `layer` gave, so that `watch`, which must live as long as them, hears of their
/// gradients before the layer does.
Activations watch_backward(Activations activations, std::size_t layer, LayerWatch& watch);

}  // namespace models
}  // namespace trireme
