#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/elastic.h"

#include "dist/distributed_optimizer.h"
#include "dist/state_items.h"
#include "elastic/buffer_sync.h"
#include "elastic/buffers.h"
#include "elastic/job_checkpoints.h"
#include "elastic/worker_trace.h"

namespace trireme::dist {

/// Thrown through the user's loop when all ranks have agreed to leave it after a step. No std::exception: programs that
/// catch these let it pass.
struct LoopLeft {
  bool stop = false;  ///< for good; else to go on in another view
};

/// What a State is made of, and where it stands in a view, in a step and in a lane. See State for the contract; the
/// parts that belong to views are called by `elastic`.
class State::Impl final : public StepOwner {
 public:
  Impl(World::Impl& world, const data::SamplerConfig& samples);
  ~Impl() override;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // ---- What it consists of.

  void add_module(const torch::nn::Module& module, const std::string& name);
  void add_optimizer(DistributedOptimizer::Impl& optimizer);
  void add_optimizer(torch::optim::Optimizer& optimizer, const std::string& name);
  void add_value(const std::string& name, std::unique_ptr<StateItem> item);
  void save_every(Step steps, const CheckpointOptions& options);
  bool has_optimizer() const { return optimizer_ != nullptr; }  ///< that makes the steps
  bool is_of(const World::Impl& world) const { return &world_ == &world; }

  // ---- Views.

  /// Returns what the master is told of the job.
  cluster::Plan plan() const;

  /// One of the ranks that the world is connected to: takes the furthest state. A collective call. Throws PeerLost,
  /// Timeout; InvalidArgument, Corrupt and IoError for the checkpoint to go on from.
  void enter_view();

  /// Drops what is on its way. If a step was begun and not made, the state is again what it was before; without a
  /// DistributedOptimizer, what it was at the last `commit`.
  void leave_view();

  /// The loop has returned: all that it made is part of the state.
  void settle();

  /// Saves it if it was not, and waits for that. Throws PeerLost if somebody's part may never come.
  void save_last();

  /// Returns the SHA-256 of all that it consists of: the same on all ranks, and for all runs that were the same.
  std::string hash() const;

  // ---- Steps.

  Step step() const { return at_.version; }
  const data::Sampler& sampler() const { return sampler_; }
  void begin_step();
  const LaneBatch* next_lane();  ///< ends the lane that was computed, begins the next; null if there is none
  void next_step();
  void commit();

  void complete_step() override;
  Step step_made() override;

 private:
  static constexpr std::size_t kMessageFloats = 3;  // whether any rank wants to stop, wants to regroup, still saves
  using Message = std::array<float, kMessageFloats>;

  /// The buffers of a module in lanes and, while in a view, among the ranks.
  struct Buffers {
    const torch::nn::Module* module;
    LaneBuffers lanes;
    std::optional<BufferSync> sync = {};
  };

  static JobSession& session_of(World::Impl& world);
  void take_name(const std::string& kind, const std::string& name);
  void check_in_view(const char* call) const;
  void connect();
  void keep();
  std::optional<Position> restore();
  std::vector<NamedParameter> tensors() const;
  void sync();
  std::vector<NamedParameter> share(Rank root);
  void prepare_all(const nlohmann::json& descriptions);
  nlohmann::json describe_all() const;
  nlohmann::json describe_run() const;
  void save_if_due();
  void save();
  Message wishes() const;
  void heed(const Message& of_all);
  void leave_if_agreed();
  void begin_lane();
  void end_lane();
  void end_lanes();

  World::Impl& world_;
  JobSession& job_;
  data::Sampler sampler_;
  std::set<std::string> names_;
  StateItems weights_;                              // change when a step is made
  StateItems values_;                               // the user's: change at any time
  const torch::nn::Module* main_module_ = nullptr;  // the one without a name
  DistributedOptimizer::Impl* optimizer_ = nullptr;
  std::vector<Buffers> buffers_;
  std::optional<JobCheckpoints> checkpoints_;
  WorkerTrace trace_;

  Position at_;
  bool in_view_ = false;
  bool in_step_ = false;            // begun, not made
  std::optional<LoopLeft> agreed_;  // before the next step
  StateSnapshot kept_values_;       // what `leave_view` goes back to
  StateSnapshot kept_weights_;      // without a DistributedOptimizer: it changes them
  Position kept_at_;
  Step last_due_ = 0;    // checkpoints up to this step were begun, or are not wanted
  bool saving_ = false;  // some rank still writes one: as all know, none begins another

  std::vector<LaneRange> deal_;  // by rank
  LaneRange mine_;
  std::vector<LaneSum> sums_;  // by lane of this rank
  Lane computed_ = 0;          // how many of these are, or the one that is
  bool in_lane_ = false;
  LaneBatch lane_;
  Message message_{};
  collective::PendingOperation message_pending_;  // last: it works on the memory above
};

}  // namespace trireme::dist
