#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cluster/lease_book.h"
#include "trireme/cluster/ledger.h"
#include "trireme/cluster/master.h"
#include "trireme/cluster/progress_board.h"
#include "trireme/cluster/roster.h"
#include "trireme/cluster/shard_plan.h"

namespace trireme::cluster {

/// What the master knows of its job, and what it does about it: all of it but threads and locks. Every call is made
/// with the master's lock held. What is refused is thrown.
class JobKeeper {
 public:
  explicit JobKeeper(MasterOptions options);

  JobStatus status() const;
  bool ended() const { return state_ == JobState::kFailed || state_ == JobState::kFinished; }
  bool deposed() const { return ledger_.deposed(); }
  bool deserted() const;

  // ---- What members ask. See protocol.h.

  /// Answered when there is a view with this process in it.
  void join(const net::SessionPtr& session, const net::FrameHeader& header, const JoinRequest& request);
  HeartbeatReply heartbeat(std::uint64_t session, const Heartbeat& beat);
  void set_plan(const Plan& plan);
  LeaseReply lease(const LeaseRequest& request);
  void rewind(const RewindRequest& request);
  void set_result(const ResultReport& report);
  void stop(const StopRequest& request);
  void scale(const ScaleRequest& request);
  void leave(const LeaveNotice& notice);

  // ---- What happens by itself.

  /// A connection has ended: whoever was behind it is dead.
  void disconnected(std::uint64_t session);

  /// Looks at the time; called every now and then.
  void tick();

 private:
  using Clock = Deadline::Clock;

  bool elastic() const { return plan_ && plan_->elastic; }
  bool is_chief(MemberId member) const { return !view_.workers.empty() && view_.workers.front().id == member; }
  std::string missing() const { return describe_missing(options_.shape, members_.states()); }
  ServerWish server_wish() const { return {.servers = wanted_servers_, .copies = 1 + options_.shape.replicas}; }
  std::uint32_t wanted(Role role) const { return role == Role::kWorker ? wanted_workers_ : wanted_servers_; }
  std::uint32_t most_workers() const { return std::min(plan_->lanes, wanted_workers_); }  // one lane each, at least
  LeasePlan lease_plan() const;

  void take_over(const SavedJob& saved);
  bool save(const ViewInfo& view);
  void save() { save(view_); }

  Member& admit(std::uint64_t session, const JoinRequest& request, const std::string& who);
  bool can_be_guest(const Member& member) const;
  JoinReply receive(const Member& guest) const;
  void dismiss(Member& member);
  bool plan_is_due() const;
  void consider_view();
  Situation situation() const;
  void watch_paces();
  bool regroups() const { return decision_.kind == ViewDecision::Kind::kRegroup; }
  bool others_wait() const;
  void wait_for_members();
  void form_view(std::vector<MemberId> workers, std::string because);
  void end_gathering();
  void heed_reports(MemberId from, const ShardReports& told);
  void notice_own_absence(Clock::time_point now);
  void give_time_to_come_back(Member& member, Clock::time_point now) const;
  void judge(Member& member, Clock::time_point now);
  void lose(Member& member, const std::string& reason);
  void finish_job();
  void fail_job(const std::string& reason);

  const MasterOptions options_;
  const Clock::time_point started_;
  Clock::time_point last_tick_;
  Clock::time_point grace_until_{};  // until then the end of a connection is no death
  LedgerKeeper ledger_;
  JobState state_ = JobState::kGathering;
  std::string reason_;
  Clock::time_point waiting_since_{};
  bool stop_ = false;
  std::uint32_t wanted_workers_;
  std::uint32_t wanted_servers_;
  ViewInfo view_;
  bool broken_ = false;    // a member of the view is gone
  std::string last_loss_;  // who it was
  ViewDecision decision_;  // about the present view
  MemberId next_member_ = 1;
  Roster members_;
  std::optional<Plan> plan_;
  ProgressBoard board_;
  LeaseBook leases_;
  bool leases_changed_ = false;  // and not saved
  Clock::time_point last_pause_ = Clock::now();
  std::vector<Straggler> stragglers_;
  std::vector<double> lane_costs_;  // that the lanes should be dealt out by; empty = no change
  Clock::time_point view_since_{};
  nlohmann::json result_;
};

}  // namespace trireme::cluster
