#include "launch/guard.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "base/error.h"
#include "launch/descriptors.h"
#include "launch/signals_blocked.h"

namespace trireme::launch {
namespace {

constexpr std::size_t kMostGroups = 4096;  // fixed: the guard must not allocate

/// Keeps only one descriptor open, so that a reader of our stdout does not wait for the guard to end.
void close_all_but(int kept) {
  if (kept > 0) ::close_range(0, static_cast<unsigned>(kept) - 1, 0);
  ::close_range(static_cast<unsigned>(kept) + 1, ~0U, 0);
}

/// The guard's main function. Forked from a process that may have threads: only async-signal-safe calls.
[[noreturn]] void stand_guard(int socket) {
  ::setpgid(0, 0);  // signals to our group are not for the guard
  ::prctl(PR_SET_NAME, "trireme-guard");
  close_all_but(socket);
  [[maybe_unused]] const int moved = ::chdir("/");

  std::array<pid_t, kMostGroups> groups;
  std::size_t count = 0;
  while (true) {
    pid_t word = 0;
    const ssize_t got = ::recv(socket, &word, sizeof word, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof word)) break;  // end of file: the guarded process is dead
    if (word > 0 && count < groups.size()) groups[count++] = word;
    if (word < 0) {
      const auto end = groups.begin() + static_cast<std::ptrdiff_t>(count);
      count = static_cast<std::size_t>(std::remove(groups.begin(), end, -word) - groups.begin());
    }
  }
  for (std::size_t i = 0; i < count; ++i) ::kill(-groups[i], SIGKILL);
  ::_exit(0);
}

}  // namespace

Guard::Guard() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fail_errno("cannot make a socket to guard the processes");
  }
  socket_ = above_standard(FileDescriptor(ends[0]));
  const FileDescriptor theirs = above_standard(FileDescriptor(ends[1]));
  if (!socket_ || !theirs) fail_errno("cannot make a socket to guard the processes");

  {
    const SignalsBlocked blocked;  // the guard keeps this mask: only SIGKILL ends it early
    pid_ = ::fork();
    if (pid_ == 0) stand_guard(theirs.get());
  }
  if (pid_ < 0) fail_errno("cannot start the guard of the processes");
}

Guard::~Guard() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Guard::announce(int descriptor, pid_t group) noexcept {
  [[maybe_unused]] const ssize_t sent = ::send(descriptor, &group, sizeof group, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace trireme::launch
