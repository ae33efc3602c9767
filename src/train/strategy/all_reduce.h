#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/spans.h"
#include "collective/communicator.h"
#include "collective/compressed_reduce.h"
#include "collective/pending_operation.h"
#include "elastic/buffer_sync.h"
#include "elastic/state_sync.h"
#include "job/job_session.h"
#include "tensor/buckets.h"
#include "tensor/device/device_sums.h"
#include "train/strategy/catch_up_client.h"
#include "train/strategy/catch_up_server.h"
#include "train/strategy/own_parameters.h"

namespace trireme {

struct AllReduceOptions {
  ParameterUpdates updates;
  Lane lanes = 1;  ///< of the whole job; the result depends on it, not on the number of workers
  BufferPolicy buffers = BufferPolicy::kAverage;
  codec::Spec codec = {};               ///< how gradients travel
  std::size_t bucket_bytes = 4u << 20;  ///< gradients are sent when this much of them is ready
  SpanRecorder* spans = nullptr;        ///< what its work takes; null: nobody wants to know
};

/// Every worker holds all parameters and makes the same update; gradients are summed among the workers.
///
/// Gradients are written straight into buckets of memory that the workers of a host share, where they are reduced in
/// place: a bucket leaves when it is full, while backward goes on. Parameters change in `finish`, once all sums of the
/// step are there. Sums follow the summation tree, and the update is that of the servers: the parameters have the same
/// bits for any number of workers, and those of ParameterServer with bsp. With a codec that no longer holds: what a
/// worker's encoding leaves out stays with that worker.
///
/// On a GPU all of it stays there, where this build has kernels for it: gradients, their sums (DeviceSums, at the end
/// of the step), the update. A codec needs the host's memory.
///
/// So when a worker is lost in the middle of a step, each of the others is before that step or after it, never in
/// between: `sync_state` brings them to the same state again. A worker that comes later is a learner first: it gets a
/// copy of the state, and then makes the others' steps on it until it takes part.
class AllReduce final : public Strategy {
 public:
  /// Talks to nobody yet. `job` outlives this object. Throws InvalidArgument as OwnParameters.
  AllReduce(JobSession& job, const Model& model, AllReduceOptions options);

  void catch_up() override;
  Step sync_state(const Restore& restore) override;
  void begin(const StepInfo& info) override;
  std::span<float> gradient(std::size_t i) override { return gradients_[i]; }
  bool on_device() const override { return device_sums_.has_value(); }
  void add(std::size_t i) override;
  std::optional<std::span<float>> buffer_sums() override { return buffer_sync_->sums(); }
  float loss_scale() const override { return parameters_->loss_scale(); }
  StepOutcome finish() override;
  void refresh() override { parameters_->show_averages(); }  // the parameters are always up to date
  void leave() override;
  std::optional<TrainingState> state(const CheckpointRequest& request) override;
  void interrupt(const std::string& reason) override;
  std::optional<optim::LossScale> adaptive_scale() const override { return parameters_->adaptive_scale(); }
  std::optional<Communication> communication() const override;
  std::optional<HeldBytes> held() const override;

 private:
  /// What travels with the gradients: as they are, before the first bucket.
  struct Message {
    double samples = 0;
    bool stop = false;
    bool regroup = false;
  };
  static constexpr std::size_t kMessageFloats = 3;

  std::vector<NamedParameter> tensors();
  bool try_to_catch_up();
  CatchUpClientOptions catch_up_options();
  void repeat(const StepChange& change, Bytes gradients_and_buffers);
  void update_learners(const StepChange& change);
  std::size_t bucket_floats() const;
  void lay_out(std::span<float> memory);
  void allocate_buckets();
  optim::UpdateInput next_update() const;
  Message await_sums();
  Message read_message() const;

  JobSession& job_;
  AllReduceOptions options_;
  collective::Communicator* ranks_ = nullptr;  // the job's, from the first meeting on
  collective::ReduceOptions reduce_;
  Model model_;
  std::unique_ptr<OwnParameters> parameters_;
  Buckets buckets_;
  std::optional<DeviceSums> device_sums_;        // where the buckets are on a GPU
  std::shared_ptr<std::byte> memory_;            // of all buckets, where they are on the host
  std::vector<std::span<float>> bucket_memory_;  // by bucket
  std::vector<std::span<float>> gradients_;      // by parameter
  std::vector<std::span<const float>> sums_;     // the same, to read
  std::optional<BufferSync> buffer_sync_;
  StepInfo info_;
  Position at_;
  std::size_t started_ = 0;  // buckets on their way in this step
  std::array<float, kMessageFloats> message_{};
  collective::PendingOperation message_pending_;         // last, as the next: they work on the memory above
  std::deque<collective::CompressedReduce> reductions_;  // by bucket
  CatchUpServer learners_;
  Mutex mutex_;                              // for interrupt; only the training thread sets catch_up_
  std::unique_ptr<CatchUpClient> catch_up_;  // while this worker is a learner
};

}  // namespace trireme
