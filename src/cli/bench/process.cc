#include "cli/bench/process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "trireme/deadline.h"

#include "base/error.h"

namespace trireme::cli {
namespace {

constexpr auto kSilence = std::chrono::milliseconds(60s);  // a process of ours that is silent for this long hangs
constexpr std::size_t kLargestMessage = 64u << 10;

/// The child's whole life.
[[noreturn]] void run_child(pid_t parent, FileDescriptor socket, const std::function<void(const BenchLink&)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before we asked
  constexpr int kOnly = 3;                // besides the standard descriptors; closes the sockets of other children
  ::dup2(socket.release(), kOnly);
  ::close_range(kOnly + 1, ~0u, 0);
  const BenchLink link{FileDescriptor(kOnly)};
  int status = 0;
  try {
    work(link);
  } catch (const std::exception& problem) {
    status = 1;
    link.send({{"error", problem.what()}});
  }
  ::_exit(status);  // nothing of the parent's is flushed or destroyed here
}

}  // namespace

void BenchLink::send(const observe::Json& message) const {
  const std::string text = message.dump();
  [[maybe_unused]] const auto sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::optional<observe::Json> BenchLink::receive() const {
  pollfd waiting{socket_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, static_cast<int>(kSilence.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    fail<Timeout>("a process of the benchmark was silent for {} ms: the machine may be overloaded", kSilence.count());
  }
  std::string text(kLargestMessage, '\0');
  const auto bytes = ::recv(socket_.get(), text.data(), text.size(), 0);
  if (bytes <= 0) return std::nullopt;
  return observe::Json::parse(text.substr(0, static_cast<std::size_t>(bytes)));
}

BenchProcess::BenchProcess(std::string name, const std::function<void(const BenchLink&)>& work)
    : name_(std::move(name)) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail_errno("cannot make a socket");
  link_.emplace(FileDescriptor(ends[0]));
  FileDescriptor theirs(ends[1]);
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // otherwise both processes would write what is buffered
  pid_ = ::fork();
  if (pid_ < 0) fail_errno(fmt::format("cannot start {}", name_));
  if (pid_ == 0) run_child(parent, std::move(theirs), work);
}

BenchProcess::~BenchProcess() {
  link_.reset();
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

observe::Json BenchProcess::receive() const {
  const auto message = link_->receive();
  if (!message) fail<PeerLost>("{} ended before its work was done: {}", name_, how_it_ended());
  if (message->contains("error")) fail<Error>("{} failed: {}", name_, message->at("error").get<std::string>());
  return *message;
}

std::string BenchProcess::how_it_ended() const {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  if (info.si_code == CLD_EXITED) return fmt::format("exit status {}", info.si_status);
  return fmt::format("signal {}; was it killed, or is memory short?", info.si_status);
}

}  // namespace trireme::cli
