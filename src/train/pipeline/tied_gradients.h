#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "trireme/layers.h"

#include "collective/pending_operation.h"
#include "plan/schedule/schedule.h"

namespace trireme::parallel {

/// A parameter that several stages use. Those that have a part in it are known to all ranks.
struct TiedStages {
  std::string parameter = {};
  std::vector<std::uint32_t> stages = {};  ///< that use it, ascending; the last one's rank owns it
};

/// Returns the ties of `layers` that reach over more than one stage.
std::vector<TiedStages> tied_stages(const LayerList& layers, const std::vector<LayerRange>& stages);

/// The gradients of tied parameters, lane by lane: whoever uses one sends its part to the owner's rank, which adds the
/// parts, last stage first, as autograd does where all stages are in one process. Rows of zeros are not sent. Messages
/// of their own, beside those of the links. Not thread-safe; errors as those of Links.
class TiedGradients {
 public:
  using OnGradient = std::function<void(std::size_t tie, Lane lane, const torch::Tensor& gradient)>;

  /// A collective call of all ranks of `ranks`, where anything is tied across ranks. `schedule` outlives this;
  /// `parameters`: of each tie, the tensor that is here; undefined if none is.
  TiedGradients(collective::Communicator& ranks, const plan::Schedule& schedule, std::vector<TiedStages> ties,
                std::vector<torch::Tensor> parameters);

  /// A step begins; `absent` lanes have no gradients.
  void begin(OnGradient on_gradient, const std::function<bool(std::uint32_t lane)>& absent);

  /// The gradient of tie `tie` in `stage`, which is here; undefined: none. Those of a stage and lane one after the
  /// other, ascending by tie: the owner takes them in this order.
  void add(std::size_t tie, std::uint32_t stage, Lane lane, torch::Tensor gradient);

  /// Takes in what has come.
  void advance();

  /// Waits until all gradients of the step were sent and received.
  void finish();

  /// Makes all ranks' waits fail with this reason.
  void abort(const std::string& reason);

  /// Gives the owners' values to all copies. A collective call.
  void share_values();

  const std::vector<TiedStages>& ties() const { return ties_; }

 private:
  /// What another rank's stage still has to send.
  struct Expected {
    std::size_t tie = 0;
    std::uint32_t stage = 0;
    Lane lane = 0;
  };
  struct Incoming {
    std::deque<Expected> expected;
    std::int64_t rows = 0;  // of the first of them; filled by `header`
    torch::Tensor indices;
    torch::Tensor values;
    std::optional<collective::PendingOperation> header;
    std::vector<collective::PendingOperation> data;
  };
  struct Sent {
    std::int64_t rows = 0;
    torch::Tensor indices;
    torch::Tensor values;
    std::vector<collective::PendingOperation> operations;
  };

  Rank owner(std::size_t tie) const { return schedule_.rank_of_stage[ties_[tie].stages.back()]; }
  void send(std::size_t tie, torch::Tensor gradient);
  bool step(Rank rank, Incoming& incoming, bool wait);
  void take(std::size_t tie, std::uint32_t stage, Lane lane, torch::Tensor gradient);

  const plan::Schedule& schedule_;
  std::vector<TiedStages> ties_;
  std::vector<torch::Tensor> parameters_;
  Rank rank_ = 0;
  std::unique_ptr<collective::Communicator> ranks_;  // null: nothing is tied across ranks
  OnGradient on_gradient_;
  std::map<Rank, Incoming> incoming_;
  std::deque<Sent> sent_;
  std::map<std::pair<std::size_t, Lane>, std::map<std::uint32_t, torch::Tensor>> parts_;  // tie, lane; by stage
};

}  // namespace trireme::parallel
