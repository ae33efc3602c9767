#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trireme/deadline.h"

namespace trireme::observe {

// What all threads of a process are doing, on request, without a debugger: `trireme stacks`, and the page when a run
// hangs. A process that allows it costs nothing until it is asked.

/// From now on this process answers `ask_for_stacks`: it writes the call stacks of its threads to
/// `<folder>/<role>-<pid>.txt`, for "worker 0" `worker-0-71.txt`. Uses two real-time signals, kStacksSignal and the one
/// after it. A second call changes folder and role.
void allow_stack_dumps(const std::filesystem::path& folder, const std::string& role);

/// The signal that asks for them.
int stacks_signal();

/// One thread of a process, as its own dump or, where it does not answer, the kernel tells.
struct ThreadStack {
  std::int64_t id = 0;
  std::string name;                 ///< "heartbeat"
  std::string state;                ///< "running", "sleeping", "waits for the disk", "stopped"
  std::vector<std::string> frames;  ///< the innermost first; empty = the process did not answer
};

/// Asks the process `pid` of this host, which must have allowed it, and waits for its answer. Returns the kernel's view
/// of its threads, without frames, if there is none by the deadline: it is stopped, or did not allow it. Names of
/// functions are found in the programs' symbol tables. Returns an empty list if there is no such process.
std::vector<ThreadStack> ask_for_stacks(const std::filesystem::path& folder, const std::string& role, pid_t pid,
                                        Deadline deadline);

/// Returns what one process is called there: `worker-0-71.txt`.
std::string stacks_file(const std::string& role, std::int64_t pid);

/// Parses what a process has written. `symbols`: look functions up in the programs that the frames name.
std::vector<ThreadStack> parse_stacks(const std::string& text, bool symbols);

/// Returns them as a person reads them, a line per frame.
std::string describe(const std::vector<ThreadStack>& threads);

}  // namespace trireme::observe
