#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/types.h"

#include "observe/append_file.h"
#include "observe/histogram.h"

namespace trireme::observe {

/// Returns seconds since 1970, as TensorBoard counts them.
double unix_time();

/// An event file that TensorBoard reads: `events.out.tfevents.<unix time>.<host>.<pid>[.<suffix>]`. Each scalar is
/// written as it is added, so curves are live. Thread-safe.
class EventFile {
 public:
  /// Creates a new file in `folder`, which is created if needed; never touches an existing file. Throws IoError.
  explicit EventFile(const std::filesystem::path& folder, std::string_view suffix = "", double wall_time = unix_time());

  /// Adds one point of the curve `tag` ("train/loss"). TensorBoard keeps single precision; values beyond its range
  /// become infinity. Does not throw if the disk is full, see healthy().
  void add_scalar(std::string_view tag, double value, Step step, double wall_time = unix_time());

  /// Adds one histogram of `tag` ("weights/fc1.weight"); nothing if it has no values.
  void add_histogram(std::string_view tag, const Histogram& histogram, Step step, double wall_time = unix_time());

  /// Says what the run was made with, for TensorBoard's table of hyper-parameters; what looks like a number is one.
  void add_hyperparameters(const std::map<std::string, std::string>& values, double wall_time = unix_time());

  /// The run begins, or goes on, after `step`: TensorBoard discards what other files of the folder say of later steps.
  void begin_after(Step step, double wall_time = unix_time());

  const std::filesystem::path& path() const { return path_; }

  /// Returns whether every event so far was written. The first failure is logged; training goes on.
  bool healthy() const { return file_.healthy(); }

 private:
  EventFile(std::pair<FileDescriptor, std::filesystem::path> created, double wall_time);

  std::filesystem::path path_;
  AppendFile file_;
};

}  // namespace trireme::observe
