#pragma once

#include <csignal>

namespace trireme {

/// From now on SIGTERM, and SIGUSR1 unless the program has a handler for it, asks this process to finish its step, hand
/// its work over to the others and end with status 0, instead of ending it at once. For a program's main; signals
/// belong to the whole process.
void leave_on_sigterm();

/// The same as long as this object lives.
class SigtermLeaves {
 public:
  SigtermLeaves();
  ~SigtermLeaves();
  SigtermLeaves(const SigtermLeaves&) = delete;
  SigtermLeaves& operator=(const SigtermLeaves&) = delete;

 private:
  const struct sigaction before_sigterm_;
  const struct sigaction before_sigusr1_;
};

/// Returns whether that signal has arrived.
bool termination_requested();

}  // namespace trireme
