#include "trireme/train/run_checkpoints.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/list.h"
#include "trireme/train/torch_dtype.h"

namespace trireme {
namespace {

constexpr auto kPartsWithin = 60s;  // the others write at the same time

checkpoint::TensorInfo describe(const NamedParameter& piece) {
  const auto dtype = dtype_of(piece.tensor.scalar_type());
  if (!dtype) {
    fail<InvalidArgument>("'{}' cannot be saved: its element type is {}", piece.name,
                          c10::toString(piece.tensor.scalar_type()));
  }
  return {.name = piece.name, .dtype = *dtype, .shape = piece.tensor.sizes().vec()};
}

void log_report(const checkpoint::WriteReport& report) {
  if (!report.problem.empty()) {
    log_error("a checkpoint failed; training goes on, the one before stays valid",
              {{"step", report.step}, {"problem", report.problem}});
  } else if (report.complete) {
    log_info("wrote a checkpoint", {{"step", report.step},
                                    {"bytes", report.bytes},
                                    {"pause_s", report.staging_seconds},
                                    {"seconds", report.seconds}});
  }
}

}  // namespace

RunCheckpoints::RunCheckpoints(std::filesystem::path folder, const CheckpointOptions& options)
    : folder_(std::move(folder)), options_(options) {
  start_writer();
}

void RunCheckpoints::start_writer() {
  writer_ = std::make_unique<checkpoint::Writer>(
      checkpoint::WriterOptions{.folder = folder_,
                                .retention = {.keep_last = options_.keep_last, .keep_best = options_.keep_best},
                                .bytes_per_second = options_.bytes_per_second,
                                .complete_within = kPartsWithin,
                                .on_done = log_report});
}

void RunCheckpoints::write(const WriterPlace& place, const Advance& at, const std::vector<NamedParameter>& state,
                           nlohmann::json meta, std::optional<double> score, bool wait) {
  if (wait) finish(Deadline::in(kPartsWithin));
  if (writer_->busy()) {
    log_warn("left out a checkpoint: the one before is still being written", {{"step", at.version}});
    return;
  }
  alone_ = place.workers == 1;
  meta["step"] = at.version;
  meta["updates"] = at.updates;
  checkpoint::PartInfo info{.step = at.version,
                            .part = place.rank,
                            .parts = place.workers,
                            .attempt = place.attempt,
                            .tensors = {},
                            .meta = std::move(meta),
                            .score = score};
  std::uint64_t total = 0;
  for (const NamedParameter& piece : state) {
    info.tensors.push_back(describe(piece));
    total += piece.tensor.nbytes();
  }
  // Worker r's share is the r-th of equal runs of all bytes, one tensor after the other.
  const std::uint64_t begin = total * place.rank / place.workers;
  const std::uint64_t end = total * (place.rank + 1) / place.workers;
  std::vector<torch::Tensor> on_host;  // kept until they are copied
  std::vector<checkpoint::Piece> pieces;
  std::uint64_t position = 0;
  for (const NamedParameter& piece : state) {
    const std::uint64_t bytes = piece.tensor.nbytes();
    const std::uint64_t from = std::clamp(begin, position, position + bytes) - position;
    const std::uint64_t to = std::clamp(end, position, position + bytes) - position;
    position += bytes;
    if (from == to) continue;
    on_host.push_back(piece.tensor.detach().to(torch::kCPU).contiguous());
    const auto* data = static_cast<const std::byte*>(on_host.back().data_ptr());
    pieces.push_back({.tensor = piece.name, .offset = from, .bytes = {data + from, to - from}});
  }
  try {
    if (!writer_->start(std::move(info), pieces)) log_warn("left out a checkpoint", {{"step", at.version}});
  } catch (const IoError& problem) {  // no memory for the copy
    log_error("left out a checkpoint; training goes on", {{"step", at.version}, {"problem", problem.what()}});
  }
}

void RunCheckpoints::finish(Deadline deadline) {
  try {
    writer_->finish(deadline);
  } catch (const Timeout& late) {
    log_error("a checkpoint was not written in time", {{"reason", late.what()}});
    start_writer();
  }
}

void RunCheckpoints::abandon() {
  if (alone_ || !writer_->busy()) return;
  writer_.reset();
  start_writer();
}

std::optional<RunCheckpoints::Restored> RunCheckpoints::restore(const std::vector<NamedParameter>& state) const {
  torch::NoGradGuard no_grad;
  const auto newest = checkpoint::latest_complete(folder_);
  if (!newest) return std::nullopt;
  const auto saved = checkpoint::Checkpoint::open(*newest);
  for (const NamedParameter& piece : state) {
    const checkpoint::TensorInfo wanted = describe(piece);
    const checkpoint::TensorInfo* there = saved.find(piece.name);
    if (there == nullptr || *there != wanted) {
      fail<InvalidArgument>(
          "checkpoint {} does not fit this run: '{}' is {} there; was it written by another model or "
          "optimizer?",
          newest->string(), piece.name, there == nullptr ? "missing" : "of another shape or type");
    }
    torch::Tensor host = piece.tensor.detach().to(torch::kCPU).contiguous();
    saved.read(piece.name, 0, {static_cast<std::byte*>(host.data_ptr()), host.nbytes()});
    torch::Tensor target = piece.tensor;
    if (host.data_ptr() != target.data_ptr()) target.copy_(host);
  }
  log_info("goes on from a checkpoint", {{"step", saved.step()}, {"folder", newest->string()}});
  return Restored{
      .at = {.fresh = false, .version = saved.step(), .updates = saved.meta().value("updates", saved.step())},
      .meta = saved.meta()};
}

}  // namespace trireme
