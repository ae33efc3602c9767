#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/deadline.h"

#include "base/bytes.h"
#include "base/mutex.h"
#include "checkpoint/file_system.h"
#include "checkpoint/format.h"
#include "checkpoint/retention.h"
#include "checkpoint/staging.h"

namespace trireme::checkpoint {

/// What all writers of one checkpoint agree on, and which of them this is.
struct PartInfo {
  Step step = 0;
  std::uint32_t part = 0;  ///< part 0 is the chief's: it completes the checkpoint
  std::uint32_t parts = 1;
  /// The same for all writers of this checkpoint; a new one each time a step is written again, also by a later launch
  /// of the run: `<launch>-<view>`. Parts of different attempts are never mixed. See is_valid_attempt.
  std::string attempt = "1";
  std::vector<TensorInfo> tensors = {};  ///< all tensors of the checkpoint, whoever writes their bytes
  nlohmann::json meta = {};              ///< whatever else is needed to resume; the chief's is used
  std::optional<double> score = {};      ///< higher is better, for keep_best; the chief's is used; NaN = none
  std::optional<std::chrono::milliseconds> complete_within = {};  ///< at the chief: overrides WriterOptions
};

/// Bytes of one tensor that this writer contributes.
struct Piece {
  std::string tensor = {};
  std::uint64_t offset = 0;  ///< of `bytes` in the tensor
  Bytes bytes = {};
};

/// How one write ended.
struct WriteReport {
  Step step = 0;
  std::uint32_t part = 0;
  std::uint64_t bytes = 0;     ///< of our part
  double staging_seconds = 0;  ///< time of the copy made by `start`, during which training waits
  double write_seconds = 0;    ///< until our part was on disk
  double seconds = 0;          ///< until the end, which for the chief includes waiting for the others
  bool written = false;        ///< our part is on disk
  bool complete = false;       ///< the manifest is on disk, so the checkpoint is complete; only the chief knows
  std::string problem = {};    ///< empty, or what went wrong and what to do; the previous checkpoint stays valid
};

struct WriterOptions {
  std::filesystem::path folder = {};                  ///< `<run>/checkpoints`, shared by all writers; created if needed
  RetentionPolicy retention = {};                     ///< applied by the chief after each checkpoint it completes
  std::uint64_t bytes_per_second = 0;                 ///< at most; 0 = no limit
  std::chrono::milliseconds complete_within = 10min;  ///< how long the chief waits for the others' parts
  FileSystem* files = nullptr;                        ///< null = the real one; outlives the writer
  std::function<void(const WriteReport&)> on_done = {};  ///< see Writer
};

/// Writes one writer's parts of a run's checkpoints, in the background, one checkpoint at a time.
///
/// Writers of the same checkpoint coordinate only through the file system: each writes its part, and the one with part
/// 0 waits for all of them and renames the manifest into place, at which moment the checkpoint exists. Failures (a full
/// disk, a writer that died) end up in the WriteReport and in the log; training goes on.
///
/// `on_done` is called once for every write that was started, by the writer's thread ("checkpoint"); it must not call
/// the writer. The destructor abandons a write in progress (which then reports that) without waiting for others: call
/// `finish` first if it matters.
class Writer {
 public:
  explicit Writer(WriterOptions options);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Copies `pieces` (training pauses only for that copy) and starts to write them. Returns false, with nothing done,
  /// if the previous write is still in progress: skip this checkpoint, or `finish` and start again. Throws
  /// InvalidArgument for invalid input: part >= parts, a duplicate tensor, a piece beyond its tensor or overlapping
  /// another, meta that is not UTF-8; IoError without enough memory for the copy. Calls of `start` must not overlap.
  [[nodiscard]] bool start(PartInfo info, std::span<const Piece> pieces);

  /// Does the same without a copy, for bytes that the caller has staged. Moves from `staging` only if it returns true.
  [[nodiscard]] bool start(PartInfo info, Staging&& staging);

  /// Returns an empty staging to fill, with the memory of the previous write if that is done.
  Staging take_staging();

  bool busy() const;

  /// Waits until no write is in progress; returns how the last one ended, nullopt if there was none. Throws Timeout.
  std::optional<WriteReport> finish(const Deadline& deadline);

 private:
  struct Job;

  void hand_over(Job job);
  void work(const std::stop_token& stop);
  WriteReport write(const Job& job, const std::stop_token& stop);

  const WriterOptions options_;
  FileSystem& files_;

  mutable Mutex mutex_;
  StoppableCondition changed_;
  std::unique_ptr<Job> job_ TRIREME_GUARDED_BY(mutex_);  // in progress; the thread reads the job without the lock
  Staging spare_ TRIREME_GUARDED_BY(mutex_);
  std::optional<WriteReport> last_ TRIREME_GUARDED_BY(mutex_);

  std::jthread thread_;  // last: stopped and joined before anything it uses is destroyed
};

}  // namespace trireme::checkpoint
