#pragma once

#include <csignal>

namespace trireme {

/// From now on SIGTERM asks this process to finish its step, hand its work over to the others and end with status 0,
/// instead of ending it at once. For a program's main; signals belong to the whole process.
void leave_on_sigterm();

/// The same as long as this object lives.
class SigtermLeaves {
 public:
  SigtermLeaves();
  ~SigtermLeaves();
  SigtermLeaves(const SigtermLeaves&) = delete;
  SigtermLeaves& operator=(const SigtermLeaves&) = delete;

 private:
  struct sigaction before_ {};
};

/// Returns whether that signal has arrived.
bool termination_requested();

}  // namespace trireme
