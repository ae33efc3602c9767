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

/// What all writers of one checkpoint say alike, and which of them this is.
struct PartInfo {
  Step step = 0;
  std::uint32_t part = 0;  ///< part 0 is the chief's: it completes the checkpoint
  std::uint32_t parts = 1;
  /// The same at all writers of this checkpoint, another each time a step is written again, also by a later launch of
  /// the run: `<job>-<view>`. Parts of other attempts are never mixed in. See is_valid_attempt.
  std::string attempt = "1";
  std::vector<TensorInfo> tensors = {};  ///< all of the checkpoint, whoever writes their bytes
  nlohmann::json meta = {};              ///< whatever else is needed to go on; the chief's counts
  std::optional<double> score = {};      ///< higher is better, for keep_best; the chief's counts; NaN = none
  std::optional<std::chrono::milliseconds> complete_within = {};  ///< instead of the chief's usual one
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
  double staging_seconds = 0;  ///< the copy made by `start`: what training waited for
  double write_seconds = 0;    ///< until our part was safely on disk
  double seconds = 0;          ///< until the end, which for the chief includes waiting for the others
  bool written = false;        ///< our part is on disk
  bool complete = false;       ///< the manifest is, so the checkpoint is; only the chief knows
  std::string problem = {};    ///< empty, or what went wrong and what to do; the checkpoint before stays valid
};

struct WriterOptions {
  std::filesystem::path folder = {};  ///< `<run>/checkpoints`, on a file system that all writers share; made if need be
  RetentionPolicy retention = {};     ///< applied by the chief after each checkpoint that it completed
  std::uint64_t bytes_per_second = 0;                    ///< at most; 0 = as fast as the disk takes it
  std::chrono::milliseconds complete_within = 10min;     ///< how long the chief waits for the parts of others
  FileSystem* files = nullptr;                           ///< null = the real one; outlives the writer
  std::function<void(const WriteReport&)> on_done = {};  ///< see Writer
};

/// Writes one writer's parts of a run's checkpoints, in the background, one checkpoint at a time.
///
/// Writers of the same checkpoint meet in the file system only: each writes its part, and the one with part 0 waits for
/// all of them and renames the manifest into place, which is the moment the checkpoint exists. What goes wrong (a full
/// disk, a writer that died) ends up in the WriteReport and in the log; training goes on.
///
/// `on_done` is called once for every write that was started, by the writer's thread ("checkpoint"); it must not call
/// the writer. The destructor gives up a write in progress (which then reports that) without waiting for others: call
/// `finish` first if it matters.
class Writer {
 public:
  explicit Writer(WriterOptions options);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Copies `pieces` (that copy is the only pause of training) and starts to write them. False, with nothing done, if
  /// the write before is still in progress: skip this checkpoint, or `finish` and start again.
  /// Throws InvalidArgument for what cannot become part of a checkpoint: part >= parts, a tensor twice, a piece beyond
  /// its tensor or over another, meta that is not UTF-8; IoError without enough memory for the copy. One thread at a
  /// time.
  [[nodiscard]] bool start(PartInfo info, std::span<const Piece> pieces);

  /// The same for bytes that the caller has staged, piece by piece, without a copy. Only taken if the result is true.
  [[nodiscard]] bool start(PartInfo info, Staging&& staging);

  /// An empty staging to fill, with the memory of the write before where that is done.
  Staging take_staging();

  bool busy() const;

  /// Waits until no write is in progress; how the last one ended, or nothing if there never was one. Throws Timeout.
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

  std::jthread thread_;  // last: stopped and joined before anything it uses goes away
};

}  // namespace trireme::checkpoint
