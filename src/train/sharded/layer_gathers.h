#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trireme/layers.h"

#include "collective/pending_operation.h"
#include "models/layer_watch.h"
#include "train/sharded/sharded_parameters.h"

namespace trireme {

/// Whole parameters where only slices are held (ZeRO 3): a layer's are gathered before its forward and before its
/// backward, while the layer before it is computed, and dropped after each. All ranks compute the same layers in the
/// same order, or skip the pass: gathers are matched by their order. Used by the training thread, and by the one on
/// which backward runs.
class LayerGathers final : public LayerWatch {
 public:
  /// `parameters`, of stage 3, and `group` (null: one rank) outlive it. Watches `layers` while it lives.
  LayerGathers(ShardedParameters& parameters, std::shared_ptr<const MadeLayers> layers,
               collective::Communicator* group);
  ~LayerGathers() override;
  LayerGathers(const LayerGathers&) = delete;
  LayerGathers& operator=(const LayerGathers&) = delete;

  void before_forward(std::size_t layer) override;
  void after_forward(std::size_t layer) override;
  void before_backward(std::size_t layer) override;

  /// This rank computes nothing while the others make a pass: forward, and backward if there is one.
  void skip_pass(bool backward);

  /// Drops all that is gathered: values are about to change, or nobody computes.
  void drop();

  /// Gathers all there is and leaves it with the module, on the ranks that `keep` it. A collective call.
  void gather_all(bool keep);

  std::uint64_t most_bytes() const { return most_floats_ * sizeof(float); }  ///< that were gathered at a time

 private:
  struct Whole {
    std::shared_ptr<float[]> memory;
    collective::PendingOperation pending;  // after the memory
    bool ready = false;
  };

  void start(std::size_t layer);
  void need(std::size_t layer);
  void release(std::size_t layer);

  ShardedParameters& parameters_;
  std::shared_ptr<const MadeLayers> layers_;
  collective::Communicator* const group_;
  std::vector<std::vector<std::size_t>> buckets_;  // by layer
  std::vector<std::optional<Whole>> whole_;        // by bucket
  std::size_t floats_ = 0;                         // that are gathered, or on their way
  std::size_t most_floats_ = 0;
};

}  // namespace trireme
