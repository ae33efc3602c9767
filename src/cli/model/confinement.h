#pragma once

#include <chrono>
#include <cstdint>

namespace trireme::cli {

/// What a process that reads a file of a stranger needs.
struct Confinement {
  std::uint64_t memory_bytes = 0;  ///< in addition to what is mapped now
  std::uint64_t file_bytes = 0;    ///< of each file that it writes
  std::chrono::seconds cpu{0};     ///< from its start; SIGXCPU ends it then
};

/// From now on this process, with all its threads, can compute, and read and write files, within these limits; it
/// cannot start programs or processes, open sockets, look into other processes, or gain privileges. There is no way
/// back. Returns false if the kernel has no seccomp: then only the limits hold. Throws IoError.
[[nodiscard]] bool confine_this_process(const Confinement& confinement);

}  // namespace trireme::cli
