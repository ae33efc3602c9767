#pragma once

#include <filesystem>

namespace trireme::chaos {

/// A folder on a disk of its own, in memory, which can be filled up and freed again. Only this process and those that
/// it starts from now on see the disk; it disappears, with its files, when the last of them ends.
class FullDisk {
 public:
  /// Creates `folder` and mounts the disk there. From now on the process has its own mount namespace. Call it before
  /// the process has threads. Throws IoError if mounting is not permitted (it takes CAP_SYS_ADMIN).
  explicit FullDisk(const std::filesystem::path& folder);

  /// Makes every write fail with ENOSPC from now on. Throws IoError.
  void make_full();

  /// Ends that. Throws IoError.
  void make_room();

 private:
  void resize(const std::string& size);

  std::filesystem::path folder_;
};

}  // namespace trireme::chaos
