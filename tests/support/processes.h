#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/file.h"

namespace trireme {

/// What a test and one of its processes say to each other: JSON, a line each.
class Talk {
 public:
  explicit Talk(FileDescriptor socket) : socket_(std::move(socket)) {}

  void say(const nlohmann::json& words) {
    const std::string line = words.dump() + "\n";
    const auto sent = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(line.size())) fail<PeerLost>("nobody listens");
  }

  /// Throws Timeout, PeerLost.
  nlohmann::json hear(std::chrono::milliseconds within = 60s) {
    const Deadline deadline = Deadline::in(within);
    std::size_t end = 0;
    while ((end = heard_.find('\n')) == std::string::npos) {
      pollfd entry{socket_.get(), POLLIN, 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
      if (::poll(&entry, 1, static_cast<int>(left.count())) == 0) fail<Timeout>("no word for {} ms", within.count());
      char buffer[4096];
      const auto got = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
      if (got <= 0) fail<PeerLost>("the process has ended");
      heard_.append(buffer, static_cast<std::size_t>(got));
    }
    auto words = nlohmann::json::parse(heard_.substr(0, end));
    heard_.erase(0, end + 1);
    return words;
  }

 private:
  FileDescriptor socket_;
  std::string heard_;
};

/// Another process that runs `body`, forked: to be made while this process has one thread. Killed, if it still runs, at
/// the end of the test. Failed expectations in it, and what it throws, make its exit status 1.
class Process {
 public:
  explicit Process(const std::function<void(Talk& test)>& body) : talk_(FileDescriptor()) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_errno("socketpair");
    FileDescriptor ours(ends[0]);
    FileDescriptor theirs(ends[1]);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) fail_errno("fork");
    if (pid_ == 0) {
      ours.close();
      run(body, Talk(std::move(theirs)));
    }
    talk_ = Talk(std::move(ours));
  }
  ~Process() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Process(Process&& other) noexcept : talk_(std::move(other.talk_)), pid_(std::exchange(other.pid_, -1)) {}
  Process& operator=(Process&&) = delete;

  pid_t pid() const { return pid_; }
  Talk& talk() { return talk_; }

  void signal(int number) const { ::kill(pid_, number); }

  /// Stops it; returns when all its threads are.
  void stop() const {
    signal(SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }

  /// Waits for its end: the exit status, or 128 + signal.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  [[noreturn]] static void run(const std::function<void(Talk& test)>& body, Talk test) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool failed_before = ::testing::Test::HasFailure();
    int status = 0;
    try {
      body(test);
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "a process of the test ended with: %s\n", problem.what());
      status = 1;
    }
    if (::testing::Test::HasFailure() && !failed_before) status = 1;
    std::fflush(nullptr);
    ::_exit(status);
  }

  Talk talk_;
  pid_t pid_ = -1;
};

}  // namespace trireme
