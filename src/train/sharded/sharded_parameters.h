#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/trainer.h"

#include "base/numbers/exact_sum.h"
#include "collective/pending_operation.h"
#include "optim/update_rule.h"
#include "train/sharded/shard_layout.h"
#include "train/sharded/slices.h"
#include "train/strategy/parameter_updates.h"

namespace trireme {

/// What a shard group divides among its ranks, beside the work (Rajbhandari et al. 2020, "ZeRO").
enum class ZeroStage : std::uint8_t {
  kState = 1,       ///< the optimizer's state
  kGradients = 2,   ///< and gradients: the whole of them exists only bucket by bucket, on the way to their owners
  kParameters = 3,  ///< and parameters: whole ones exist only layer by layer, while they are needed
};

struct ShardedParametersOptions {
  ParameterUpdates updates;
  ZeroStage stage = ZeroStage::kState;
  Rank rank = 0;            ///< in the shard group
  std::uint32_t ranks = 1;  ///< of it
  std::size_t bucket_bytes = 4u << 20;
  std::vector<std::uint32_t> layers = {};  ///< by parameter: what is gathered together in stage 3; empty: all
  std::map<std::string, ParameterSlice> slices = {};  ///< parameters of which only a slice is here (dimension tensor)
  bool counts_whole = true;  ///< whether the norm of parameters that are not slices is counted here, or by another rank
  bool whole_gradients = false;  ///< gradients are kept until all lanes of this worker are summed, in whatever stage
};

/// Parameters of a model, of which this rank of a shard group owns a part: it updates it, and holds the optimizer state
/// of it alone. The update is the very code that servers run, so all strategies give the same bits.
///
/// Up to stage 2 the module's parameters are views of flat memory that the ranks of a host share, one array per bucket;
/// on a GPU they are copies of it. In stage 3 they have no memory but what `show_whole` gives them.
class ShardedParameters {
 public:
  /// Takes the parameters' values over. With several ranks `group` are these; a collective call then. Throws
  /// InvalidArgument if there are no parameters, or one is not float32, PeerLost, Timeout.
  ShardedParameters(const std::vector<NamedParameter>& parameters, ShardedParametersOptions options,
                    collective::Communicator* group);

  std::size_t size() const { return parts_.size(); }
  const std::string& name(std::size_t i) const { return parts_[i].name; }
  const WholeTensor& whole(std::size_t i) const { return parts_[i].whole; }
  const ShardLayout& layout() const { return layout_; }
  std::span<const ShardLayout::Run> runs() const { return runs_; }  ///< what this rank owns

  /// The arrays of which it holds its shard: the parameters themselves, then each array of the optimizer's state.
  std::size_t arrays() const { return 1 + state_.size(); }
  std::string array_tensor(std::size_t array, const std::string& parameter) const;  ///< its name in checkpoints

  /// What is owned of an array, one's own parameters and not averages that may be shown.
  std::span<float> owned(std::size_t array, const ShardLayout::Run& run);

  /// The same of the parameters, or of the averages, whichever are shown.
  std::span<float> shown(const ShardLayout::Run& run) { return stored(0, run); }

  /// Where the gradient of parameter `i` is written. The memory of bucket b is also that of bucket b + gradient_places.
  std::span<float> gradient(std::size_t i);
  std::size_t gradient_places() const { return places_; }

  /// The whole gradient of a bucket, as it was written; and where the sum of this rank's slice of it goes.
  std::span<float> bucket_gradients(std::size_t bucket);
  std::span<float> owned_gradients(std::size_t bucket);

  /// Adds the squares of all sums that this rank owns.
  void add_squares_to(ExactSum& squares);

  /// Whether all sums that this rank owns are finite.
  bool gradients_are_finite();

  /// One update of all that is owned, in step number `step` of the run, from the sums.
  void update(const optim::UpdateInput& input, Step step);

  /// The values that the module had when training began: before `take_over`.
  std::span<const float> initial(std::size_t i) const;

  /// What this rank owns is filled: from now on the module has the parameters of all ranks of `group`, or, in stage 3,
  /// none. A collective call; if it throws the module has what it had.
  void take_over(collective::Communicator* group);

  /// What is owned has changed: all ranks of `group` get it, up to stage 2. A collective call.
  void gather(collective::Communicator* group);

  // Stage 3.

  /// This rank's slice of a bucket, of the parameters or of the averages, whichever are shown.
  std::span<const float> shown_slice(std::size_t bucket) const;

  /// The module's parameters of a bucket are in `memory` until `hide_whole`.
  void show_whole(std::size_t bucket, const std::shared_ptr<float[]>& memory);
  void hide_whole(std::size_t bucket);

  /// The moving averages take the parameters' place, in all ranks' modules, and back. Collective calls where there are
  /// averages; nothing, and false, if there are none, or they are shown, or not shown, already.
  bool show_averages(collective::Communicator* group);
  bool show_own(collective::Communicator* group);

  HeldBytes held() const;

 private:
  struct Part {
    std::string name;
    torch::Tensor tensor;   // the module's
    torch::Tensor initial;  // its values, in the host's memory, until `take_over`
    WholeTensor whole;
    ParameterRule rule;
    optim::UpdateConfig config;
  };

  std::span<float> stored(std::size_t array, const ShardLayout::Run& run);
  bool divided() const { return options_.stage == ZeroStage::kParameters; }
  void allocate_values(collective::Communicator* group);
  void allocate_gradients(collective::Communicator* group);
  void gather_values(collective::Communicator* group);
  void swap_averages();
  void copy_to_module();

  ShardedParametersOptions options_;
  std::vector<Part> parts_;
  ShardLayout layout_;
  std::vector<ShardLayout::Run> runs_;
  std::shared_ptr<std::byte> value_memory_;
  std::vector<std::span<float>> values_;  // by bucket; in stage 3 none
  std::vector<float> value_shard_;        // in stage 3
  std::size_t place_floats_ = 0;          // of all places for gradients
  std::shared_ptr<std::byte> gradient_memory_;
  std::size_t places_ = 0;                   // for gradients of buckets
  std::vector<std::span<float>> gradients_;  // by bucket
  std::vector<float> gradient_shard_;        // where buckets share places, else empty
  std::vector<std::vector<float>> state_;    // by array: this rank's shard
  std::optional<std::size_t> average_;       // which of them is the moving average
  bool averages_shown_ = false;
};

}  // namespace trireme
