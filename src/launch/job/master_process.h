#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/protocol.h"
#include "launch/exit.h"
#include "launch/job/restart_policy.h"
#include "net/address.h"
#include "net/connection.h"

namespace trireme::launch {

struct MasterProcessOptions {
  std::filesystem::path announce = {};  ///< the file in which it tells where it listens
  std::string secret = {};
  bool replaceable = true;            ///< its state outlives it: a successor can continue
  std::function<pid_t()> start = {};  ///< starts the process, as the leader of its group
  std::chrono::milliseconds listens_within = 20s;
  std::chrono::milliseconds answers_within = 2s;
};

/// The master of a job, as its launcher sees it: started, asked for the state of the job, and replaced when it dies or
/// hangs; members find its successor by themselves. Not thread-safe.
class MasterProcess {
 public:
  using Time = RestartPolicy::Time;

  explicit MasterProcess(MasterProcessOptions options) : options_(std::move(options)) {}

  void start(Time now);

  /// Instead of starting one: it runs elsewhere, and is another launcher's business.
  void adopt(const net::Address& address);

  /// Does what is due: reads where it listens, starts a successor, kills a replaceable one that takes too long to
  /// listen.
  void look(Time now);

  /// Returns whether one runs and has said where it listens.
  bool listening() const { return elsewhere_ || (pid_ > 0 && listens_); }

  /// Returns whether one was ever listening.
  bool known() const { return address_.port != 0; }

  /// Returns where the last one that listened is, or was.
  const net::Address& address() const { return address_; }

  /// Records that it has ended.
  void note_end();

  /// Call it after an end that nobody wanted: decides whether and when a successor is started.
  RestartDecision restart(const Exit& exit, Time now);

  /// Returns when a successor is to be started; nullopt if none is.
  std::optional<Time> restart_at() const { return restart_at_; }

  /// The job got further: restarts before this moment count no more.
  void note_progress() { restarts_.on_progress(0); }

  /// Asks for the state of the job; waits `answers_within` to connect and as long again for the answer. One that is
  /// replaceable and does not answer twice in a row hangs: it is killed. Throws PeerLost, Timeout.
  cluster::JobStatus status();

  /// Asks the job to stop after the step. Throws PeerLost, Timeout.
  void ask_to_stop(const std::string& reason);

  /// Says how many workers and servers there should be. Throws PeerLost, Timeout, InvalidArgument.
  void scale(const cluster::ScaleRequest& request);

  bool connected() const { return connection_ != nullptr; }
  void disconnect() { connection_.reset(); }

 private:
  void connect();
  void give_up(const std::string& reason);

  const MasterProcessOptions options_;
  net::EventLoop loop_{"launch-net", 1};
  // Longer pauses than a start takes, and in all much shorter than members do without a master.
  RestartPolicy restarts_{
      {.limit = 10, .next_pause = 50ms, .longest_pause = 5s, .forgive_after = 60s, .avoid_for = std::nullopt}};
  pid_t pid_ = 0;  // 0: none runs
  bool listens_ = false;
  bool elsewhere_ = false;
  net::Address address_;
  std::optional<Time> listen_by_;
  std::optional<Time> restart_at_;
  std::shared_ptr<net::Connection> connection_;
  int unanswered_ = 0;    // questions in a row
  std::string given_up_;  // why we killed it; empty = we did not
};

}  // namespace trireme::launch
