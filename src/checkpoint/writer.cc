#include "checkpoint/writer.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/part_writer.h"

namespace trireme::checkpoint {
namespace {

using Clock = Deadline::Clock;

double seconds_since(Clock::time_point began) { return seconds(Clock::now() - began); }

Manifest manifest_of(const PartInfo& info) {
  return {.step = info.step,
          .attempt = info.attempt,
          .score = info.score && std::isfinite(*info.score) ? info.score : std::nullopt,
          .tensors = info.tensors,
          .parts = std::vector<PartEntry>(info.parts),
          .meta = info.meta};
}

void check_pieces(const PartInfo& info, std::vector<PieceInfo> pieces) {
  std::unordered_map<std::string_view, std::uint64_t> sizes;
  for (const TensorInfo& tensor : info.tensors) {
    if (!sizes.emplace(tensor.name, bytes_of(tensor)).second) {
      fail<InvalidArgument>("tensor '{}' was given twice; every tensor needs its own name", tensor.name);
    }
  }
  std::ranges::sort(pieces, [](const PieceInfo& a, const PieceInfo& b) {
    return std::tie(a.tensor, a.offset) < std::tie(b.tensor, b.offset);
  });
  const PieceInfo* before = nullptr;
  for (const PieceInfo& piece : pieces) {
    const auto size = sizes.find(piece.tensor);
    if (size == sizes.end()) {
      fail<InvalidArgument>("a piece of '{}' was given, which is not among the tensors", piece.tensor);
    }
    if (piece.offset > size->second || piece.length > size->second - piece.offset) {
      fail<InvalidArgument>("'{}' has {} bytes; a piece with {} bytes from {} on was given", piece.tensor, size->second,
                            piece.length, piece.offset);
    }
    if (before != nullptr && before->tensor == piece.tensor && before->offset + before->length > piece.offset) {
      fail<InvalidArgument>("byte {} of '{}' was given twice", piece.offset, piece.tensor);
    }
    before = &piece;
  }
}

void check(const PartInfo& info, std::vector<PieceInfo> pieces) {
  if (info.parts == 0 || info.parts > kMaxParts || info.part >= info.parts) {
    fail<InvalidArgument>("part {} of {}: parts count from 0 and are at most {}", info.part, info.parts, kMaxParts);
  }
  if (!is_valid_attempt(info.attempt)) {
    fail<InvalidArgument>("attempt '{}' cannot stand in a file name: use 1 to 64 letters, digits, '-' and '_'",
                          info.attempt);
  }
  check_pieces(info, std::move(pieces));
  encode(manifest_of(info));  // throws now what would otherwise surface too late
}

}  // namespace

struct Writer::Job {
  PartInfo info;
  Staging staging;
  double staging_seconds = 0;
};

Writer::Writer(WriterOptions options)
    : options_(std::move(options)), files_(options_.files != nullptr ? *options_.files : real_file_system()) {
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

Writer::~Writer() = default;

bool Writer::start(PartInfo info, std::span<const Piece> pieces) {
  if (busy()) return false;
  const auto began = Clock::now();
  std::vector<PieceInfo> infos;
  std::uint64_t total = 0;
  for (const Piece& piece : pieces) {
    infos.push_back({.tensor = piece.tensor, .offset = piece.offset, .length = piece.bytes.size()});
    total += piece.bytes.size();
  }
  check(info, std::move(infos));
  Staging staging = take_staging();
  staging.reset(total);
  for (const Piece& piece : pieces) {
    const MutableBytes place = staging.add(piece.tensor, piece.offset, piece.bytes.size());
    if (!place.empty()) std::memcpy(place.data(), piece.bytes.data(), place.size());
  }
  hand_over({.info = std::move(info), .staging = std::move(staging), .staging_seconds = seconds_since(began)});
  return true;
}

bool Writer::start(PartInfo info, Staging&& staging) {
  if (busy()) return false;
  check(info, {staging.pieces().begin(), staging.pieces().end()});
  hand_over({.info = std::move(info), .staging = std::move(staging)});
  return true;
}

void Writer::hand_over(Job job) {
  const MutexLock lock(mutex_);
  job_ = std::make_unique<Job>(std::move(job));
  changed_.notify_all();
}

Staging Writer::take_staging() {
  const MutexLock lock(mutex_);
  Staging staging = std::move(spare_);
  staging.reset(0);
  return staging;
}

bool Writer::busy() const {
  const MutexLock lock(mutex_);
  return job_ != nullptr;
}

std::optional<WriteReport> Writer::finish(const Deadline& deadline) {
  const MutexLock lock(mutex_);
  if (!changed_.wait(mutex_, deadline, [this]() TRIREME_REQUIRES(mutex_) { return job_ == nullptr; })) {
    fail<Timeout>(
        "the checkpoint of step {} is not written after {} s; the disk may be slow, or the others' parts late",
        job_->info.step, static_cast<double>(deadline.allowed().count()) / 1000);
  }
  return last_;
}

void Writer::work(const std::stop_token& stop) {
  ::pthread_setname_np(::pthread_self(), "checkpoint");
  MutexLock lock(mutex_);
  while (changed_.wait(mutex_, stop, [this]() TRIREME_REQUIRES(mutex_) { return job_ != nullptr; })) {
    const Job& job = *job_;  // does not change until we are done
    lock.unlock();
    const WriteReport report = write(job, stop);
    if (options_.on_done) {
      try {
        options_.on_done(report);
      } catch (const std::exception& problem) {
        log_error("checkpoint_report_failed", "the receiver of a checkpoint report failed",
                  {{"reason", problem.what()}});
      }
    }
    lock.lock();
    spare_ = std::move(job_->staging);
    job_ = nullptr;
    last_ = report;
    changed_.notify_all();
  }
}

WriteReport Writer::write(const Job& job, const std::stop_token& stop) {
  const auto began = Clock::now();
  const PartInfo& info = job.info;
  const std::filesystem::path folder = options_.folder / step_folder_name(info.step);
  WriteReport report{.step = info.step,
                     .part = info.part,
                     .bytes = job.staging.bytes().size(),
                     .staging_seconds = job.staging_seconds};
  try {
    write_part(files_, folder, {.step = info.step, .attempt = info.attempt, .part = info.part, .parts = info.parts},
               job.staging, options_.bytes_per_second, stop);
    report.written = true;
    report.write_seconds = seconds_since(began);
    if (info.part == 0) {
      complete_checkpoint(files_, folder, manifest_of(info),
                          Deadline::in(info.complete_within.value_or(options_.complete_within)), stop);
      report.complete = true;
      for (const Removal& removal :
           decide_removals(list_checkpoints(options_.folder, files_), options_.retention, info.step)) {
        remove_checkpoint(files_, removal.folder);
        log_info("checkpoint_removed", "removed a checkpoint",
                 {{"folder", removal.folder.string()}, {"reason", removal.reason}});
      }
    }
  } catch (const std::exception& problem) {
    report.problem =
        report.complete
            ? fmt::format("step {} is complete, but old checkpoints stay: {}", info.step, problem.what())
            : fmt::format("checkpoint of step {} failed, those before it stay valid: {}", info.step, problem.what());
    if (report.complete) {
      log_warn("checkpoint_not_removed", "could not remove old checkpoints",
               {{"step", info.step}, {"reason", problem.what()}});
    } else {
      log_warn("checkpoint_write_failed", "could not write a checkpoint; the previous one stays valid",
               {{"step", info.step}, {"reason", problem.what()}});
    }
  }
  report.seconds = seconds_since(began);
  return report;
}

}  // namespace trireme::checkpoint
