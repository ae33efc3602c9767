#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "trireme/types.h"

#include "observe/append_file.h"

namespace trireme::observe {

/// Removes from the file at `path`, if it exists, the rows whose "step" is after `step`, and lines that are no rows,
/// before a run resumes from there. Throws IoError.
void drop_rows_after(const std::filesystem::path& path, Step step);

/// Returns the last row of training in the file at `path`; null if there is none. Throws IoError.
nlohmann::json last_train_row(const std::filesystem::path& path);

/// `metrics.jsonl`: one JSON object per line, readable while the run goes on. Thread-safe.
class MetricsFile {
 public:
  /// Opens or creates `path` and appends after its last complete line; cuts off a partial line that a crash left. Locks
  /// the file: throws IoError if another writer has it open, or it cannot be opened; Corrupt if its last line is cut
  /// but does not look like ours (so that a wrong path destroys no file).
  explicit MetricsFile(const std::filesystem::path& path);

  /// Adds `row`, an object, as one line, which has reached the kernel when the call returns. JSON has no NaN and no
  /// infinity: these become null, and a field `not_finite` says which and what: `{"loss": null, "not_finite": {"loss":
  /// "nan"}}` (nested values as `test.loss`). Throws InvalidArgument if `row` is not an object; does not throw if the
  /// disk is full, see healthy().
  void append(const nlohmann::json& row);

  /// Returns whether every row so far was written. The first failure is logged; training goes on.
  bool healthy() const { return file_.healthy(); }

 private:
  AppendFile file_;
};

}  // namespace trireme::observe
