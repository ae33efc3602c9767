#include "ps/part_saver.h"

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/part_writer.h"
#include "net/event_loop.h"

namespace trireme::ps {
namespace {

constexpr auto kGiveUpWithin = 2s;     // much longer than it takes, unless the disk hangs
constexpr auto kSnapshotWithin = 60s;  // chunks lack one update at most: that of a step that is under way

void check(const SaveRequest& request) {
  if (request.part == 0 || request.part >= request.parts || request.parts > checkpoint::kMaxParts) {
    fail<InvalidArgument>(
        "part {} of {} cannot be a server's: theirs are 1 and up, of at most {}; part 0 is the chief's", request.part,
        request.parts, checkpoint::kMaxParts);
  }
  if (!checkpoint::is_valid_attempt(request.attempt)) {
    fail<InvalidArgument>(
        "an attempt of {} bytes cannot stand in a file name: 1 to 64 letters, digits, '-' and '_' can",
        request.attempt.size());
  }
}

/// The snapshot as tensors of a checkpoint. Its memory is given back as it goes.
checkpoint::Staging stage(const Layout& layout, const std::vector<std::string>& states, Snapshot snapshot) {
  std::uint64_t total = 0;
  for (const auto& [index, state] : snapshot.chunks) total += state.bytes;
  checkpoint::Staging staging;
  staging.reset(total);
  for (auto& [index, state] : snapshot.chunks) {
    const ChunkPlace& place = layout.chunks()[index].place;
    if (layout.tables()[place.table].sums) continue;
    const std::string& parameter = layout.tables()[place.table].name;
    const std::uint64_t bytes = place.count * sizeof(float);
    for (std::uint64_t array = 0; array * bytes < state.bytes; ++array) {
      const std::string tensor = array == 0 ? checkpoint::model_tensor(parameter)
                                            : checkpoint::optimizer_tensor(parameter, states.at(array - 1));
      const MutableBytes to = staging.add(tensor, place.begin * sizeof(float), bytes);
      std::memcpy(to.data(), state.memory.get() + array * bytes, bytes);
    }
    state.memory.reset();
  }
  return staging;
}

}  // namespace

PartSaver::PartSaver(std::filesystem::path folder, SpanRecorder* spans)
    : folder_(std::move(folder)), spans_(spans), thread_([this](const std::stop_token& stop) {
        net::name_thread("checkpoint");
        work(stop);
      }) {}

PartSaver::~PartSaver() {
  const MutexLock lock(mutex_);
  if (job_) job_->stop.request_stop();
}

SaveReply PartSaver::save(const SaveRequest& request, const HeldShards& held) {
  check(request);
  const Tables& tables = held.tables();
  const MutexLock lock(mutex_);
  if (job_) job_->stop.request_stop();
  if (!changed_.wait(mutex_, Deadline::in(kGiveUpWithin), [this]() TRIREME_REQUIRES(mutex_) { return !job_; })) {
    return {.problem = fmt::format("its part of step {} is still being written, the disk may hang", job_->step)};
  }
  SnapshotCollector& snapshots = *tables.snapshots();
  try {
    for (const std::uint32_t chunk : snapshots.want(request.version, held.view())) {
      if (held.primary_of(chunk).snapshot_at(request.version, held.view())) continue;
      snapshots.forget();
      return {.problem = fmt::format("chunk {} is at another version than {}", chunk, request.version)};
    }
  } catch (const Error&) {
    snapshots.forget();
    throw;
  }
  const JobTables& job = tables.description();
  job_ = Job{
      .tables = &tables, .request = request, .step = steps_of(job.consistency, job.lanes, request.version), .stop = {}};
  changed_.notify_all();
  return {.updates = snapshots.updates(request.version)};
}

void PartSaver::work(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (changed_.wait(mutex_, stop, [this]() TRIREME_REQUIRES(mutex_) { return job_.has_value(); })) {
    const Job& job = *job_;  // stays as it is until we are done
    lock.unlock();
    try {
      write(job);
    } catch (const std::exception& problem) {
      log_error("part_failed", "could not write a part of a checkpoint; the previous checkpoint stays valid",
                {{"step", job.step}, {"part", job.request.part}, {"reason", problem.what()}});
    }
    lock.lock();
    job_.reset();
    changed_.notify_all();
  }
}

void PartSaver::write(const Job& job) const {
  const std::stop_token stop = job.stop.get_token();
  const auto began = Deadline::Clock::now();
  const SaveRequest& request = job.request;
  auto snapshot = job.tables->snapshots()->take(Deadline::in(kSnapshotWithin), stop);
  if (!snapshot) {
    fail<Error>("it was given up, its view ended, or {:.0f} s passed, before all of it came to version {}",
                seconds(kSnapshotWithin), request.version);
  }
  const ScopedSpan span(spans_, "checkpoint", job.step);
  const checkpoint::Staging staging =
      stage(job.tables->layout(), optim::state_names(job.tables->policy().update), std::move(*snapshot));
  checkpoint::write_part(checkpoint::real_file_system(), folder_ / checkpoint::step_folder_name(job.step),
                         {.step = job.step, .attempt = request.attempt, .part = request.part, .parts = request.parts},
                         staging, request.bytes_per_second, stop);
  log_info("part_written", "wrote a part of a checkpoint",
           {{"step", job.step},
            {"part", request.part},
            {"bytes", staging.bytes().size()},
            {"seconds", seconds(Deadline::Clock::now() - began)}});
}

}  // namespace trireme::ps
