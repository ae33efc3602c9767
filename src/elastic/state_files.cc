#include "elastic/state_files.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/list.h"
#include "checkpoint/verify.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme {
namespace {

checkpoint::TensorInfo describe(const NamedParameter& piece) {
  const auto dtype = dtype_of(piece.tensor.scalar_type());
  if (!dtype) {
    fail<InvalidArgument>("'{}' cannot be saved: its element type is {}", piece.name,
                          c10::toString(piece.tensor.scalar_type()));
  }
  return {.name = piece.name, .dtype = *dtype, .shape = piece.tensor.sizes().vec()};
}

/// Reads all of `state` from a checkpoint. Throws as StateFiles::restore, and then leaves `state` unspecified.
void fill(const std::vector<NamedParameter>& state, const checkpoint::Checkpoint& saved) {
  torch::NoGradGuard no_grad;
  for (const NamedParameter& piece : state) {
    const checkpoint::TensorInfo wanted = describe(piece);
    const checkpoint::TensorInfo* there = saved.find(piece.name);
    if (there == nullptr || *there != wanted) {
      fail<InvalidArgument>(
          "checkpoint {} does not fit this run: '{}' is {} there; was it written by another model or "
          "optimizer?",
          saved.folder().string(), piece.name, there == nullptr ? "missing" : "of another shape or type");
    }
    torch::Tensor host = on_host(piece.tensor);
    saved.read(piece.name, 0, bytes_of(host));
    torch::Tensor target = piece.tensor;
    if (host.data_ptr() != target.data_ptr()) target.copy_(host);
  }
}

Position position_of(const checkpoint::Checkpoint& saved) {
  return {.fresh = false, .version = saved.step(), .updates = saved.meta().value("updates", saved.step())};
}

void log_resumed(const checkpoint::Checkpoint& saved) {
  log_info("resumed_from_checkpoint", "resumed from a checkpoint",
           {{"step", saved.step()}, {"folder", saved.folder().string()}});
}

/// For parts of others, beyond the time that we took for ours, and for all of it at the end: much more than it takes,
/// unless the disk is worse than slow.
std::chrono::milliseconds allow(std::uint64_t bytes, std::uint64_t bytes_per_second) {
  constexpr std::uint64_t kSlowDisk = 20'000'000;
  const std::uint64_t pace = bytes_per_second > 0 ? std::min(bytes_per_second, kSlowDisk) : kSlowDisk;
  return 60s + std::chrono::milliseconds(1000 * bytes / pace);
}

}  // namespace

StateFiles::StateFiles(std::filesystem::path folder, const CheckpointOptions& options)
    : folder_(std::move(folder)), options_(options) {
  start_writer();
}

void StateFiles::start_writer() {
  writer_ = std::make_unique<checkpoint::Writer>(
      checkpoint::WriterOptions{.folder = folder_,
                                .retention = {.keep_last = options_.keep_last, .keep_best = options_.keep_best},
                                .bytes_per_second = options_.bytes_per_second,
                                .on_done = [this](const checkpoint::WriteReport& report) { log_report(report); }});
}

void StateFiles::log_report(const checkpoint::WriteReport& report) const {
  if (!report.problem.empty()) {
    log_error("checkpoint_failed", "a checkpoint failed; training continues, the previous checkpoint stays valid",
              {{"step", report.step}, {"reason", report.problem}});
  } else if (report.complete) {
    log_info("checkpoint_written", "wrote a checkpoint",
             {{"step", report.step},
              {"bytes", bytes_},
              {"pause_s", waited_ + report.staging_seconds},
              {"seconds", report.seconds}});
  }
}

bool StateFiles::may_begin(Step step) const {
  if (!writer_->busy()) return true;
  log_warn("checkpoint_skipped", "skipped a checkpoint: the previous one is still being written", {{"step", step}});
  return false;
}

void StateFiles::write(const WriterPlace& place, const TrainingState& state, nlohmann::json meta,
                       std::optional<double> score, Deadline::Clock::time_point began) {
  const Step step = state.at.version;
  const std::uint32_t parts = place.workers + state.other_parts;
  meta["step"] = step;
  meta["updates"] = state.at.updates;
  checkpoint::PartInfo info{.step = step,
                            .part = place.rank,
                            .parts = parts,
                            .attempt = place.attempt,
                            .tensors = {},
                            .meta = std::move(meta),
                            .score = score};
  std::uint64_t total = 0;
  for (const NamedParameter& piece : state.tensors) {
    info.tensors.push_back(describe(piece));
    total += piece.tensor.nbytes();
  }
  std::uint64_t elsewhere = 0;
  for (const NamedParameter& piece : state.elsewhere) {
    info.tensors.push_back(describe(piece));
    elsewhere += piece.tensor.nbytes();
  }
  // Worker r's share is the r-th of equal runs of all bytes, one tensor after the other.
  const std::uint64_t begin = total * place.rank / place.workers;
  const std::uint64_t end = total * (place.rank + 1) / place.workers;
  std::vector<torch::Tensor> held;  // until they are copied
  std::vector<checkpoint::Piece> pieces;
  std::uint64_t position = 0;
  for (const NamedParameter& piece : state.tensors) {
    const std::uint64_t bytes = piece.tensor.nbytes();
    const std::uint64_t from = std::clamp(begin, position, position + bytes) - position;
    const std::uint64_t to = std::clamp(end, position, position + bytes) - position;
    position += bytes;
    if (from == to) continue;
    const torch::Tensor& host = held.emplace_back(on_host(piece.tensor));
    pieces.push_back({.tensor = piece.name, .offset = from, .bytes = bytes_of(host).subspan(from, to - from)});
  }
  if (state.sharded) {
    for (const checkpoint::TensorInfo& tensor : state.sharded->tensors) {
      info.tensors.push_back(tensor);
      total += checkpoint::bytes_of(tensor);
    }
    pieces.insert(pieces.end(), state.sharded->pieces.begin(), state.sharded->pieces.end());
  }
  alone_ = parts == 1;
  bytes_ = total + elsewhere;
  allowed_ = allow(bytes_ / parts, options_.bytes_per_second);
  info.complete_within = allowed_;
  waited_ = seconds(Deadline::Clock::now() - began);
  try {
    if (!writer_->start(std::move(info), pieces))
      log_warn("checkpoint_skipped", "skipped a checkpoint: the previous one is still being written", {{"step", step}});
  } catch (const IoError& problem) {  // no memory for the copy
    log_error("checkpoint_skipped", "skipped a checkpoint; training continues",
              {{"step", step}, {"reason", problem.what()}});
  }
}

void StateFiles::finish(const std::function<std::string()>& loss) {
  const Deadline deadline = Deadline::in(allowed_);
  while (writer_->busy()) {
    if (const std::string reason = loss && !alone_ ? loss() : ""; !reason.empty()) fail<PeerLost>("{}", reason);
    if (deadline.passed()) {
      log_error("checkpoint_overdue", "a checkpoint was not written in time", {{"seconds", seconds(allowed_)}});
      return start_writer();
    }
    std::this_thread::sleep_for(1ms);
  }
}

void StateFiles::abandon() {
  if (alone_ || !writer_->busy()) return;
  writer_.reset();
  start_writer();
}

std::optional<StateFiles::Opened> StateFiles::open(const std::function<void(const nlohmann::json& meta)>& check) const {
  std::optional<Opened> opened;
  checkpoint::read_newest(folder_, [&](const checkpoint::Checkpoint& saved) {
    check(saved.meta());
    const checkpoint::VerifyReport report = checkpoint::verify(saved.folder());
    if (!report.sound()) {
      fail<Corrupt>("checkpoint {} is damaged: {}", saved.folder().string(),
                    report.problems.empty()
                        ? fmt::format("{} blocks differ from what was written", report.damaged.size())
                        : report.problems.front());
    }
    opened = {.at = position_of(saved), .saved = checkpoint::Checkpoint::open(saved.folder())};
    log_resumed(saved);
  });
  return opened;
}

std::optional<StateFiles::Restored> StateFiles::restore(const StateFor& state) const {
  std::optional<Restored> restored;
  checkpoint::read_newest(folder_, [&](const checkpoint::Checkpoint& saved) {
    fill(state(saved.meta()), saved);
    log_resumed(saved);
    restored = {.at = position_of(saved), .meta = saved.meta()};
  });
  return restored;
}

}  // namespace trireme
