#pragma once

#include "trireme/deadline.h"

#include "base/file.h"

namespace trireme::launch {

/// Returns the same open file under a number above 2, close-on-exec, so that setting up a child's 0, 1 and 2 cannot
/// overwrite it (ours may be closed, and then open() returns those numbers). An empty descriptor stays empty; returns
/// an empty one, with errno set, on failure.
FileDescriptor above_standard(FileDescriptor file);

/// Marks every open descriptor from `first` on close-on-exec. Async-signal-safe: for the child between fork and exec.
void close_on_exec_from(int first) noexcept;

/// Returns the time left for ::poll(): rounded up, so that a wait never spins through its last millisecond.
int milliseconds_left(const Deadline& deadline);

}  // namespace trireme::launch
