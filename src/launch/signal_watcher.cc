#include "launch/signal_watcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>

#include "base/error.h"
#include "launch/descriptors.h"

namespace trireme::launch {
namespace {

/// The pipe that the handler writes to. A handler has no argument of ours, so this one number must be global.
std::atomic<int> handler_pipe = -1;
static_assert(std::atomic<int>::is_always_lock_free);

struct Caught {
  int signal = 0;
  timespec at{};  // CLOCK_MONOTONIC, when it arrived rather than when it was read
};

void on_signal(int signal) {
  const int saved = errno;
  Caught caught{.signal = signal};
  ::clock_gettime(CLOCK_MONOTONIC, &caught.at);
  // Smaller than PIPE_BUF: written whole or not at all. A full pipe already holds enough signals.
  [[maybe_unused]] const ssize_t written = ::write(handler_pipe.load(), &caught, sizeof caught);
  errno = saved;
}

}  // namespace

SignalWatcher::SignalWatcher(SignalWatcherOptions options) : options_(options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("cannot make a pipe for signals");
  read_end_ = FileDescriptor(ends[0]);
  write_end_ = FileDescriptor(ends[1]);
  int nobody = -1;
  TRIREME_CHECK(handler_pipe.compare_exchange_strong(nobody, write_end_.get()), "a SignalWatcher exists already");

  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction current {};
    ::sigaction(kSignals[i], nullptr, &current);
    if (current.sa_handler == SIG_IGN) continue;
    ::sigaction(kSignals[i], &action, nullptr);
    before_[i] = current;
  }
}

SignalWatcher::~SignalWatcher() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (before_[i]) ::sigaction(kSignals[i], &*before_[i], nullptr);
  }
  handler_pipe.store(-1);
}

StopRequest SignalWatcher::take() {
  StopRequest request = StopRequest::kNone;
  Caught caught;
  while (::read(read_end_.get(), &caught, sizeof caught) == static_cast<ssize_t>(sizeof caught)) {
    const auto at = std::chrono::seconds(caught.at.tv_sec) + std::chrono::nanoseconds(caught.at.tv_nsec);
    if (signal_ == 0) {
      signal_ = caught.signal;
      first_at_ = at;
      request = StopRequest::kStop;
    } else if (at - first_at_ >= options_.together) {
      request = StopRequest::kStopNow;
    }
  }
  return request;
}

}  // namespace trireme::launch
