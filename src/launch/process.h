#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme::launch {

/// A program to start, and where its output goes.
struct ProcessSpec {
  std::string name = {};                        ///< for people: "worker 1"
  std::vector<std::string> argv = {};           ///< a program without '/' is looked up in PATH
  std::map<std::string, std::string> env = {};  ///< added to, or overriding, the inherited environment
  std::filesystem::path log = {};               ///< stdout and stderr are appended to it; empty: inherited
  bool shielded =
      false;  ///< begins with SIGTERM, SIGINT, SIGHUP and SIGUSR1 ignored: only its launcher heeds those of a cluster
};

/// Throws InvalidArgument if `program`, looked up in PATH if it has no '/', is not there or may not be executed: before
/// anything is started for it.
void check_program(const std::string& program);

/// Starts `spec` as leader of a new process group and returns its pid once the program runs.
///
/// The child has default signal handlers, an empty signal mask, /dev/null as stdin and no descriptor of ours except 0,
/// 1 and 2. The kernel kills it (SIGKILL) when the *thread* that called this ends, so call it from a thread that
/// outlives the child. `guard` is the descriptor where the child announces its group before it runs (see Guard). Throws
/// IoError if the log or the program cannot be opened or executed (nothing is left running then), InvalidArgument if
/// argv is empty.
pid_t spawn(const ProcessSpec& spec, int guard);

}  // namespace trireme::launch
