#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "trireme/types.h"

#include "observe/append_file.h"

namespace trireme::observe {

/// Seconds since 1970, as TensorBoard counts them.
double unix_time();

/// An event file that TensorBoard reads: `events.out.tfevents.<unix time>.<host>.<pid>[.<suffix>]`. Each scalar is
/// handed to the system as it is added, so curves are live. Any thread may add.
class EventFile {
 public:
  /// Creates a new file in `folder`, which is made if need be; never touches an existing one. Throws IoError.
  explicit EventFile(const std::filesystem::path& folder, std::string_view suffix = "", double wall_time = unix_time());

  /// One point of the curve `tag` ("train/loss"). TensorBoard keeps single precision; beyond its range is infinity.
  /// A full disk is no exception, see healthy().
  void add_scalar(std::string_view tag, double value, Step step, double wall_time = unix_time());

  const std::filesystem::path& path() const { return path_; }

  /// Whether every event so far was written. The first failure is logged; training goes on.
  bool healthy() const { return file_.healthy(); }

 private:
  EventFile(std::pair<FileDescriptor, std::filesystem::path> created, double wall_time);

  std::filesystem::path path_;
  AppendFile file_;
};

}  // namespace trireme::observe
