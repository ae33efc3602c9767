#include "train/compute/work_stream.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "cluster/unit_ranges.h"

namespace trireme {
namespace {

constexpr auto kReadTime = 120s;
constexpr auto kLeaseTime = 3600s;     // others may be slow with the last units, or save; the master notices who hangs
constexpr Step kPauseMark = ~Step{0};  // the step of a work item that means: a pause
constexpr Step kIdleMark = kPauseMark - 1;

std::size_t depth_for(Lane lanes) { return 2 * static_cast<std::size_t>(lanes); }

class FixedStream final : public WorkStream {
 public:
  FixedStream(std::shared_ptr<const data::Dataset> dataset, std::shared_ptr<const data::Sampler> sampler,
              LaneRange lanes, Step first, Step steps, data::Batch::Allocate allocate)
      : lanes_(lanes),
        wanted_(first),
        prefetcher_(
            std::move(dataset),
            [this, sampler = std::move(sampler), lanes, steps, step = first,
             lane = lanes.first](const std::stop_token&) mutable -> std::optional<data::Work> {
              if (lane == lanes.first) step = std::max(step, wanted_.load());
              if (step >= steps) return std::nullopt;
              data::Work work{.step = step,
                              .lane = lane,
                              .indices = sampler->indices(step, lane),
                              .epoch = sampler->epoch_of(step)};
              if (++lane == lanes.end()) {
                lane = lanes.first;
                ++step;
              }
              return work;
            },
            depth_for(lanes.count), std::move(allocate)) {}

  std::optional<StepWork> next(Step step) override {
    wanted_.store(step);
    StepWork work{.step = step, .lanes = lanes_, .items = {}};
    while (work.items.size() < lanes_.count) {
      auto item = prefetcher_.next(Deadline::in(kReadTime));
      if (!item) return std::nullopt;
      if (item->work.step < step) {  // read ahead for a step this worker has skipped
        prefetcher_.recycle(std::move(item->batch));
        continue;
      }
      work.step = item->work.step;
      work.items.push_back(std::move(*item));
    }
    return work;
  }

  void finish(StepWork work) override {
    for (data::Item& item : work.items) prefetcher_.recycle(std::move(item.batch));
  }

 private:
  LaneRange lanes_;
  std::atomic<Step> wanted_;
  data::Prefetcher prefetcher_;
};

class LeasedStream final : public WorkStream {
 public:
  LeasedStream(std::shared_ptr<const data::Dataset> dataset, std::shared_ptr<const data::Sampler> sampler,
               cluster::Membership& master, data::Batch::Allocate allocate)
      : sampler_(std::move(sampler)),
        master_(master),
        prefetcher_(
            std::move(dataset), [this](const std::stop_token& stop) { return produce(stop); }, 2, std::move(allocate)) {
  }

  std::optional<StepWork> next(Step /*step*/) override {
    auto item = prefetcher_.next(Deadline::in(kLeaseTime));
    if (!item) return std::nullopt;
    StepWork work{.step = item->work.step, .lanes = {item->work.lane, 1}, .items = {}};
    if (work.step == kPauseMark) {
      const MutexLock lock(mutex_);
      work.pause = true;
      work.step = paused_ / sampler_->config().lanes;
    }
    work.idle = work.step == kIdleMark;
    work.items.push_back(std::move(*item));
    return work;
  }

  void pass() override {
    {
      const MutexLock lock(mutex_);
      passed_ = std::exchange(paused_, 0);
      if (master_.rank() == 0) saved_ = passed_;
    }
    finished_some_.notify_all();
  }

  void close() override {
    prefetcher_.stop();
    try {
      cluster::LeaseRequest last = report();
      last.held.clear();  // what is in progress is given up
      last.more = false;
      master_.lease(last);
    } catch (const Error& problem) {  // it will be computed again, and count once
      log_debug("work_report_failed", "could not report finished work", {{"reason", problem.what()}});
    }
  }

  void finish(StepWork work) override {
    {
      const MutexLock lock(mutex_);
      finished_.push_back({work.step * sampler_->config().lanes + work.lanes.first, 1});
    }
    finished_some_.notify_all();
    for (data::Item& item : work.items) prefetcher_.recycle(std::move(item.batch));
  }

  std::uint64_t finished_units() const override { return finished_units_.load(); }

 private:
  std::optional<data::Work> produce(const std::stop_token& stop) {
    while (lease_.count == 0) {
      const cluster::LeaseReply reply = master_.lease(report());
      finished_units_.store(reply.finished);
      if (reply.over || stop.stop_requested()) return std::nullopt;
      lease_ = reply.range;
      const MutexLock lock(mutex_);
      if (lease_.count > 0) {
        held_.push_back(lease_);
        idle_ = false;
      }
      if (reply.save && paused_ == 0 && passed_ != reply.finished) {
        paused_ = reply.finished;
        return data::Work{.step = kPauseMark, .lane = 0, .indices = {}};
      }
      if (lease_.count == 0 && held_.empty() && finished_.empty() && !std::exchange(idle_, true)) {
        return data::Work{.step = kIdleMark, .lane = 0, .indices = {}};
      }
      if (lease_.count == 0) {  // others are at work on the last units: ask again when there is news, or soon
        finished_some_.wait(mutex_, stop, Deadline::in(10ms),
                            [this]() TRIREME_REQUIRES(mutex_) { return !finished_.empty() || saved_ > 0; });
        if (stop.stop_requested()) return std::nullopt;
      }
    }
    const std::uint64_t unit = lease_.first++;
    --lease_.count;
    const Lane lanes = sampler_->config().lanes;
    const Step step = unit / lanes;
    const auto lane = static_cast<Lane>(unit % lanes);
    return data::Work{
        .step = step, .lane = lane, .indices = sampler_->indices(step, lane), .epoch = sampler_->epoch_of(step)};
  }

  /// What the master has to know: with the request for more work, or the last word.
  cluster::LeaseRequest report() {
    const MutexLock lock(mutex_);
    held_ = cluster::without(held_, finished_);
    return {.finished = std::exchange(finished_, {}),
            .held = held_,
            .saved = std::exchange(saved_, 0),
            .more = paused_ == 0};  // else the training thread makes use of the pause
  }

  std::shared_ptr<const data::Sampler> sampler_;
  cluster::Membership& master_;
  std::atomic<std::uint64_t> finished_units_{0};
  cluster::UnitRange lease_;  // the prefetch thread's
  bool idle_ = false;         // likewise: the training thread was told that there is no work
  Mutex mutex_;
  StoppableCondition finished_some_;
  std::vector<cluster::UnitRange> finished_ TRIREME_GUARDED_BY(mutex_);  // not yet reported
  std::vector<cluster::UnitRange> held_ TRIREME_GUARDED_BY(mutex_);      // leased, not yet reported as finished
  std::uint64_t paused_ TRIREME_GUARDED_BY(mutex_) = 0;  // finished units at the pause that the training thread is in
  std::uint64_t passed_ TRIREME_GUARDED_BY(mutex_) = 0;  // and at the last one that it was in
  std::uint64_t saved_ TRIREME_GUARDED_BY(mutex_) = 0;   // the chief's: likewise, not yet reported
  data::Prefetcher prefetcher_;
};

}  // namespace

std::uint64_t StepWork::samples() const {
  std::uint64_t total = 0;
  for (const data::Item& item : items) total += item.batch.size();
  return total;
}

std::unique_ptr<WorkStream> make_fixed_stream(std::shared_ptr<const data::Dataset> dataset,
                                              std::shared_ptr<const data::Sampler> sampler, LaneRange lanes, Step first,
                                              Step steps, data::Batch::Allocate allocate) {
  return std::make_unique<FixedStream>(std::move(dataset), std::move(sampler), lanes, first, steps,
                                       std::move(allocate));
}

std::unique_ptr<WorkStream> make_leased_stream(std::shared_ptr<const data::Dataset> dataset,
                                               std::shared_ptr<const data::Sampler> sampler,
                                               cluster::Membership& master, data::Batch::Allocate allocate) {
  return std::make_unique<LeasedStream>(std::move(dataset), std::move(sampler), master, std::move(allocate));
}

}  // namespace trireme
