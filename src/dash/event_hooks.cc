#include "dash/event_hooks.h"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "net/http/client.h"

extern char** environ;

namespace trireme::dash {
namespace {

constexpr std::size_t kMostUntold = 100;
constexpr std::size_t kLossesKept = 120;

double median_of(std::deque<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// "http://host:port/path".
struct Target {
  std::string scheme;
  net::Address server;
  std::string path;
};

std::optional<Target> parse_url(const std::string& text) {
  for (const char* scheme : {"http", "https"}) {
    const std::string prefix = fmt::format("{}://", scheme);
    if (!text.starts_with(prefix)) continue;
    const std::string rest = text.substr(prefix.size());
    const auto slash = rest.find('/');
    std::string server = rest.substr(0, slash);
    if (server.empty()) fail<InvalidArgument>("--on-event {}: which host?", text);
    if (server.rfind(':') == server.npos || server.ends_with(']')) server += prefix == "http://" ? ":80" : ":443";
    return Target{
        .scheme = scheme, .server = net::parse_address(server), .path = slash == rest.npos ? "/" : rest.substr(slash)};
  }
  return std::nullopt;
}

}  // namespace

// ---- What is new.

std::vector<RunEvent> EventDetector::look(const cluster::JobStatus& status, Time now) {
  std::vector<RunEvent> events;
  look_for_losses(status, events);
  if (status.state == cluster::JobPhase::kFailed && status.reason.find("the loss is ") != std::string::npos) {
    if (!std::exchange(not_finite_, true)) events.push_back({"nan", status.reason, status.now.step});
  }
  look_for_stall(status, now, events);
  look_for_spike(status, now, events);
  return events;
}

void EventDetector::look_for_losses(const cluster::JobStatus& status, std::vector<RunEvent>& events) {
  for (const auto& [what, count] : status.counters.failures) {
    std::uint64_t& known = failures_[what];
    if (count > known) {
      events.push_back({"death", fmt::format("a {}: {}", what, status.reason), status.now.step});
    }
    known = count;  // a new master counts from 0
  }
  const auto& recoveries = status.counters.recovery_s;
  if (recoveries.count() > recoveries_) {
    events.push_back({"recovery",
                      fmt::format("training goes on after {:.1f} s: {}", recoveries.sum - recovered_s_, status.reason),
                      status.now.step});
  }
  recoveries_ = recoveries.count();
  recovered_s_ = recoveries.sum;
}

void EventDetector::look_for_stall(const cluster::JobStatus& status, Time now, std::vector<RunEvent>& events) {
  const bool at_work = status.state == cluster::JobPhase::kRunning || status.state == cluster::JobPhase::kWaiting;
  if (!at_work || status.now.step != step_ || step_at_ == Time{}) {
    step_ = status.now.step;
    step_at_ = now;
    stalled_ = false;
    return;
  }
  if (stalled_ || now - step_at_ < options_.stall_after) return;
  stalled_ = true;
  events.push_back({"stall", fmt::format("no step for {:.0f} s: {}", seconds(now - step_at_), status.reason), step_});
}

void EventDetector::look_for_spike(const cluster::JobStatus& status, Time now, std::vector<RunEvent>& events) {
  const double loss = status.now.loss;
  if (status.state != cluster::JobPhase::kRunning || !std::isfinite(loss)) return;
  if (loss_at_ != Time{} && now - loss_at_ < std::chrono::seconds(1)) return;
  loss_at_ = now;
  if (losses_.size() >= options_.spike_after) {
    const double usual = median_of(losses_);
    const bool high = usual > 0 && loss > options_.spike * usual;
    if (high && !spiked_) {
      events.push_back({"spike", fmt::format("the loss is {:.4g}, {:.1f} times as high as usual", loss, loss / usual),
                        status.now.step});
    }
    spiked_ = high;
  }
  losses_.push_back(loss);
  if (losses_.size() > kLossesKept) losses_.pop_front();
}

// ---- Who is told.

class EventHooks::Impl {
 public:
  explicit Impl(EventHookOptions options) : options_(std::move(options)) { parse_url(options_.target); }

  ~Impl() {
    const Deadline deadline = Deadline::in(options_.command_within);
    while (busy() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    thread_.request_stop();
  }

  bool wanted() const { return !options_.target.empty(); }

  EventDetector detector;

  void tell(const RunEvent& event) {
    const MutexLock lock(mutex_);
    if (untold_.size() >= kMostUntold) untold_.pop_front();
    untold_.push_back(event);
    if (telling_) return;
    telling_ = true;
    thread_ = std::jthread([this](const std::stop_token& stop) { tell_all(stop); });  // the one before has ended
  }

  std::pair<std::uint64_t, std::uint64_t> told() const {
    const MutexLock lock(mutex_);
    return {told_, failed_};
  }

 private:
  bool busy() const {
    const MutexLock lock(mutex_);
    return telling_;
  }

  void tell_all(const std::stop_token& stop) {
    for (;;) {
      RunEvent event;
      {
        const MutexLock lock(mutex_);
        if (untold_.empty() || stop.stop_requested()) {
          telling_ = false;
          return;
        }
        event = untold_.front();
        untold_.pop_front();
      }
      tell_one(options_.target, event);
    }
  }

  void tell_one(const std::string& target, const RunEvent& event) {
    const std::string body =
        nlohmann::json{{"event", event.kind}, {"text", event.text}, {"step", event.step}, {"run", options_.run}}.dump(
            -1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::string problem;
    try {
      if (const auto url = parse_url(target)) {
        post(*url, body);
      } else {
        run(target, event, body);
      }
    } catch (const std::exception& failure) {
      problem = failure.what();
      log_warn("hook_failed", "a hook could not be told of an event",
               {{"hook", target}, {"kind", event.kind}, {"reason", problem}});
    }
    const MutexLock lock(mutex_);
    ++told_;
    if (!problem.empty()) ++failed_;
  }

  void post(const Target& url, const std::string& body) const {
    net::HttpClient client(url.server, url.scheme == "https" ? std::optional(net::HttpTls{}) : std::nullopt);
    const net::HttpAnswer answer =
        client.post({.path = url.path, .body = body, .deadline = Deadline::in(options_.post_within)});
    if (answer.status >= 300) fail<IoError>("it answered with status {}", answer.status);
  }

  void run(const std::string& command, const RunEvent& event, const std::string& body) const {
    // Memory, not a pipe: a command that ends without reading must not end us with SIGPIPE.
    const FileDescriptor in(::memfd_create("trireme-event", MFD_CLOEXEC));
    if (!in || ::write(in.get(), body.data(), body.size()) != static_cast<ssize_t>(body.size()) ||
        ::lseek(in.get(), 0, SEEK_SET) != 0) {
      fail_errno("cannot hand it the event");
    }
    std::vector<std::string> settings{"TRIREME_EVENT=" + event.kind, "TRIREME_EVENT_TEXT=" + event.text,
                                      fmt::format("TRIREME_EVENT_STEP={}", event.step), "TRIREME_RUN=" + options_.run};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string_view text(*variable);
      if (!text.starts_with("TRIREME_SECRET=")) settings.emplace_back(text);
    }
    std::vector<char*> environment;
    for (std::string& setting : settings) environment.push_back(setting.data());
    environment.push_back(nullptr);
    std::string shell = "sh";
    std::string flag = "-c";
    std::string words = command;
    std::array<char*, 4> argv{shell.data(), flag.data(), words.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in.get(), 0);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sigset_t signals;
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes, &signals);
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes, &signals);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) fail<IoError>("cannot start it: {}", std::strerror(error));
    await(pid);
  }

  void await(pid_t pid) const {
    int status = 0;
    for (const Deadline deadline = Deadline::in(options_.command_within); ::waitpid(pid, &status, WNOHANG) == 0;) {
      if (deadline.passed()) {
        ::kill(-pid, SIGKILL);
        ::waitpid(pid, &status, 0);
        fail<Timeout>("it took longer than {:.0f} s and was killed", seconds(options_.command_within));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (WIFSIGNALED(status)) fail<IoError>("it died of signal {}", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) fail<IoError>("it ended with status {}", WEXITSTATUS(status));
  }

  const EventHookOptions options_;
  mutable Mutex mutex_;
  std::deque<RunEvent> untold_ TRIREME_GUARDED_BY(mutex_);
  bool telling_ TRIREME_GUARDED_BY(mutex_) = false;
  std::uint64_t told_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::uint64_t failed_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

EventHooks::EventHooks(EventHookOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
EventHooks::~EventHooks() = default;
void EventHooks::tell(const RunEvent& event) {
  if (impl_->wanted()) impl_->tell(event);
}

void EventHooks::watch(const cluster::JobStatus& status, EventDetector::Time now) {
  if (!impl_->wanted()) return;
  for (const RunEvent& event : impl_->detector.look(status, now)) impl_->tell(event);
}

void EventHooks::tell_end(int status, const std::string& failure, Step step) {
  const std::string how = !failure.empty() ? "failed: " + failure : status == 0 ? "finished" : "stopped before the end";
  tell({.kind = "finish", .text = how, .step = step});
}

std::pair<std::uint64_t, std::uint64_t> EventHooks::told() const { return impl_->told(); }

}  // namespace trireme::dash
