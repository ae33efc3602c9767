#pragma once

#include <filesystem>

namespace trireme::chaos {

/// A folder on a disk of its own, in memory, which can be made full and given room again. Only this process and those
/// that it starts from now on see the disk; it is gone with the last of them, and so are its files.
class FullDisk {
 public:
  /// Makes `folder` and puts the disk there. From now on the process has its own set of mounts. Call it before the
  /// process has threads. Throws IoError if mounting is not permitted (it takes CAP_SYS_ADMIN).
  explicit FullDisk(const std::filesystem::path& folder);

  /// From now on every write fails with ENOSPC. Throws IoError.
  void make_full();

  /// There is room again. Throws IoError.
  void make_room();

 private:
  void resize(const std::string& size);

  std::filesystem::path folder_;
};

}  // namespace trireme::chaos
