#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "base/file.h"
#include "observe/bench_report.h"

namespace trireme::cli {

// The processes of a benchmark: forked, connected to us by one socket each, killed when we end.

/// One end of the socket between this process and one it forked: JSON values, one per message. Not thread-safe.
class BenchLink {
 public:
  explicit BenchLink(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Never fails: if the other side is gone, `receive` says so.
  void send(const observe::Json& message) const;

  /// Returns the next message; nullopt when the other side is gone. Throws Timeout after a minute of silence.
  std::optional<observe::Json> receive() const;

 private:
  FileDescriptor socket_;
};

/// A forked process that runs one function and ends. Killed, if necessary, and reaped by the destructor; killed by the
/// kernel when the thread that forked it ends.
class BenchProcess {
 public:
  /// Forks: the calling process must have no other threads. `work` runs in the child; what it throws is rethrown by our
  /// `receive`. `name` is for messages: "worker 1". Throws IoError.
  BenchProcess(std::string name, const std::function<void(const BenchLink&)>& work);

  ~BenchProcess();
  BenchProcess(const BenchProcess&) = delete;
  BenchProcess& operator=(const BenchProcess&) = delete;

  void send(const observe::Json& message) const { link_->send(message); }

  /// The next message. Throws Error with what the process failed with, PeerLost with how it ended, or Timeout.
  observe::Json receive() const;

  pid_t pid() const { return pid_; }

 private:
  std::string how_it_ended() const;

  std::string name_;
  std::optional<BenchLink> link_;
  pid_t pid_ = -1;
};

}  // namespace trireme::cli
