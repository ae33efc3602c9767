#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "trireme/cluster/protocol.h"
#include "trireme/net/connection.h"

namespace trireme::cluster {

struct MembershipOptions {
  Role role = Role::kWorker;
  Rank rank = 0;
  net::Address master;
  net::Address own_address;  ///< where this process listens: servers for workers, workers for each other
  std::string secret;
  net::Transport transport = net::Transport::kAuto;  ///< shared memory is never used here
  std::chrono::milliseconds join_within = 150s;
  std::chrono::milliseconds heartbeat_every = 100ms;
  std::chrono::milliseconds master_silent_after = 10s;
};

/// This process's place in the job: joins, then keeps the master informed from a thread of its own.
class Membership {
 public:
  /// What the heartbeat thread tells; called on that thread.
  struct Events {
    std::function<void(const std::string& reason)> on_abort;  ///< once: the job failed, or the master is gone
    std::function<void()> on_stop;                            ///< end after the current step
    std::function<void()> on_over;                            ///< all workers are done
    std::function<void(const MetricsRow&)> on_row;            ///< chief only: a row of metrics
    std::function<ClockReport()> clocks;                      ///< servers: asked before each heartbeat
  };

  /// Joins and waits until everybody is here. Throws Timeout naming who is missing, PeerLost, Unauthenticated.
  Membership(net::Loop& loop, MembershipOptions options, Events events);

  /// Stops the heartbeats; says nothing to the master: see leave().
  ~Membership();

  const ViewInfo& view() const { return view_; }

  void set_plan(const Plan& plan);

  /// Adds to what the next heartbeat reports: counts are added, clock and lr replaced. Cheap; thread-safe.
  void report(const WorkDone& work);

  LeaseReply lease(const std::vector<UnitRange>& finished);

  void post_result(const nlohmann::json& result);

  /// Sends what is not reported yet, and has the row of metrics in progress completed with it.
  void flush() { send_heartbeat(/*last=*/true); }

  /// Asks that the whole job stops after the current step.
  void request_stop(const std::string& reason);

  /// Sends what is not reported yet and says goodbye; `failure` ends the whole job.
  void leave(const std::string& failure = "");

 private:
  void beat(const std::stop_token& stop);
  void send_heartbeat(bool last = false);
  void tell_abort(const std::string& reason);  // once; with beat_mutex_

  MembershipOptions options_;
  Events events_;
  std::shared_ptr<net::Connection> connection_;
  ViewInfo view_;
  std::mutex beat_mutex_;  // one heartbeat at a time, so that rows arrive in order
  std::mutex mutex_;
  WorkDone unreported_;  // guarded by mutex_
  bool stop_told_ = false;
  bool over_told_ = false;
  bool abort_told_ = false;
  std::jthread thread_;
};

}  // namespace trireme::cluster
