#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "trireme/types.h"

#include "observe/append_file.h"

namespace trireme::observe {

/// Takes out of the file at `path`, if there is one, what a run wrote after `step`, before it goes on from there: rows
/// whose "step" is larger. Throws IoError.
void drop_rows_after(const std::filesystem::path& path, Step step);

/// `metrics.jsonl`: one JSON object per line, readable while the run goes on. Any thread may append.
class MetricsFile {
 public:
  /// Opens or creates `path` and goes on after its last whole line; a part of a line that a crash left behind is cut
  /// off. The file is locked: throws IoError if another writer has it open, or it cannot be opened; Corrupt if its last
  /// line is cut but does not look like ours (so that a wrong path costs nobody a file).
  explicit MetricsFile(const std::filesystem::path& path);

  /// Adds `row`, an object, as one line, handed to the system before the call returns. JSON has no NaN and no
  /// infinity: these become null, and a field `not_finite` tells which and what:
  /// `{"loss": null, "not_finite": {"loss": "nan"}}` (nested values as `test.loss`). Throws InvalidArgument if `row` is
  /// no object; a full disk is no exception, see healthy().
  void append(const nlohmann::json& row);

  /// Whether every row so far was written. The first failure is logged; training goes on.
  bool healthy() const { return file_.healthy(); }

 private:
  AppendFile file_;
};

}  // namespace trireme::observe
