#include "launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "launch/descriptors.h"

namespace trireme::launch {
namespace {

constexpr auto kLookAgain = 5ms;    // when no descriptor signals the end
constexpr auto kLastPatience = 1s;  // SIGKILL takes a millisecond; longer means the kernel is stuck

void watch(int events, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &event) != 0) fail_errno("cannot watch a process");
}

/// By syscall number: the header of glibc 2.36 does not link from C++.
int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)); }

/// Children of a process that ignores SIGCHLD vanish without a status, and the disposition is inherited.
void keep_exit_statuses() {
  struct sigaction action {};
  if (::sigaction(SIGCHLD, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) ::signal(SIGCHLD, SIG_DFL);
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options)
    : options_(options),
      thread_(::gettid()),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      alarm_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!events_ || !alarm_) fail_errno("cannot set up the watch over processes");
  watch(events_.get(), alarm_.get());
  keep_exit_statuses();
  // Orphaned descendants are reparented to us instead of init, so that we can see when a group is empty.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail_errno("cannot become a child subreaper");
}

Supervisor::~Supervisor() {
  try {
    kill_now();
    const Deadline deadline = Deadline::in(kLastPatience);
    while (alive() > 0 && !deadline.passed()) wait(deadline);
  } catch (const std::exception&) {
    // There is no one to report it to; the kernel and the guard do the rest when we end.
  }
}

pid_t Supervisor::start(const ProcessSpec& spec) {
  TRIREME_CHECK(::gettid() == thread_, "{} would be killed with a thread that does not own it", spec.name);
  const pid_t pid = spawn(spec, guard_.descriptor());
  processes_.push_back({.name = spec.name, .pid = pid});
  if (options_.use_pidfd) {
    FileDescriptor pidfd(open_pidfd(pid));
    if (pidfd) {
      watch(events_.get(), pidfd.get());
      processes_.back().pidfd = std::move(pidfd);
    }
  }
  set_alarm();
  return pid;
}

std::vector<Exit> Supervisor::poll() {
  look();
  std::vector<Exit> ends = std::exchange(unreported_, {});
  set_alarm();
  return ends;
}

std::vector<Exit> Supervisor::wait(Deadline deadline, int wake) {
  while (true) {
    std::vector<Exit> ends = poll();
    if (!ends.empty() || alive() == 0 || deadline.passed()) return ends;
    std::array<pollfd, 2> ready{{{.fd = events_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = wake, .events = POLLIN, .revents = 0}}};  // poll ignores -1
    const int count = ::poll(ready.data(), ready.size(), milliseconds_left(deadline));
    if (count < 0 && errno != EINTR) fail_errno("cannot wait for processes");
    if (count > 0 && ready[1].revents != 0) return poll();
  }
}

void Supervisor::stop(std::chrono::milliseconds grace) {
  look();  // those that ended before this moment did so by themselves
  const Deadline kill_at = Deadline::in(grace);
  for (Process& process : processes_) {
    if (process.kill_at && process.kill_at->at() <= kill_at.at()) continue;
    process.kill_at = kill_at;
    process.told_to_stop = true;
    ::kill(-process.pid, SIGTERM);
    ::kill(-process.pid, SIGCONT);  // a stopped process could not react to SIGTERM
  }
  set_alarm();
}

void Supervisor::kill_now() {
  look();
  for (Process& process : processes_) kill_group(process);
  set_alarm();
}

void Supervisor::kill(pid_t pid) {
  look();  // one that ended before this moment did so by itself
  for (Process& process : processes_) {
    if (process.pid == pid) kill_group(process);
  }
  set_alarm();
}

/// One round over all processes: collects ends, kills those whose grace has passed, drops empty groups.
void Supervisor::look() {
  for (Process& process : processes_) {
    if (!process.ended) collect(process);
    if (process.kill_at && process.kill_at->passed()) kill_group(process);
  }
  std::erase_if(processes_, [this](const Process& process) {
    if (!process.ended || !group_is_gone(process)) return false;
    guard_.forget(process.pid);
    return true;
  });
}

/// Reaps the leader of a group if it has ended, and describes its end.
void Supervisor::collect(Process& process) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(process.pid);
  if (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno == EINTR) return;
    info.si_code = CLD_EXITED;  // other code in this process reaped it and has its status
    info.si_status = 1;
  } else if (info.si_pid == 0) {
    return;  // it runs
  }
  // Until the leader is reaped, its number cannot belong to another group.
  if (!process.told_to_stop) ::kill(-process.pid, SIGKILL);
  ::waitid(P_PID, id, &info, WEXITED | WNOHANG);
  process.ended = true;
  if (process.pidfd) ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, process.pidfd.get(), nullptr);
  process.pidfd.close();

  const WaitStatus status{.code = info.si_code, .value = info.si_status};
  unreported_.push_back(describe_exit(process.name, process.pid, status, process.told_to_stop));
  exits_.push_back(unreported_.back());
}

void Supervisor::kill_group(Process& process) {
  process.told_to_stop = true;
  process.kill_at.reset();
  ::kill(-process.pid, SIGKILL);
}

/// For a group whose leader was reaped: reaps members reparented to us, and returns whether none is left.
bool Supervisor::group_is_gone(const Process& process) {
  while (::waitpid(-process.pid, nullptr, WNOHANG) > 0) {
  }
  return ::kill(-process.pid, 0) != 0;  // no member, or none that we may signal
}

/// Sets the timer to the next moment when look() has work that no pidfd signals.
void Supervisor::set_alarm() {
  const auto now = Deadline::Clock::now();
  std::optional<Deadline::Clock::time_point> due;
  const auto at_latest = [&](Deadline::Clock::time_point at) { due = due ? std::min(*due, at) : at; };
  if (!unreported_.empty()) at_latest(now);
  for (const Process& process : processes_) {
    if (process.kill_at) at_latest(process.kill_at->at());
    if (process.ended || !process.pidfd) at_latest(now + kLookAgain);
  }
  itimerspec time{};  // zero: no alarm
  if (due) {
    const auto since_boot = due->time_since_epoch();
    const auto whole = std::chrono::floor<std::chrono::seconds>(since_boot);
    time.it_value.tv_sec = whole.count();
    time.it_value.tv_nsec = std::chrono::nanoseconds(since_boot - whole).count();
  }
  if (::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &time, nullptr) != 0) fail_errno("cannot set a timer");
}

}  // namespace trireme::launch
