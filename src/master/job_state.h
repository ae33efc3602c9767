#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "master/apart_pairs.h"
#include "master/lease_table.h"
#include "master/master.h"
#include "master/master_log.h"
#include "master/member_table.h"
#include "master/metrics_aggregator.h"
#include "master/shard_plan.h"
#include "master/span_collector.h"

namespace trireme::master {

/// What the master knows of its job, and what it does about it: everything except threads, locks and the clock. Every
/// call is made with the master's lock held and passes the current time, which never goes back. Throws if it refuses.
class JobState {
 public:
  using Time = Deadline::Clock::time_point;

  /// `write` starts to save what has changed, and `saved` is called when that has ended; by default it is saved at
  /// once, with `options.log_entry`.
  JobState(MasterOptions options, Time now, MasterLog::Write write = {});
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  cluster::JobStatus status(Time now) const;
  bool ended() const { return state_ == cluster::JobPhase::kFailed || state_ == cluster::JobPhase::kFinished; }

  /// Returns whether the job has ended and the members may know: a successor would know it too.
  bool over() const { return state_ == cluster::JobPhase::kFailed || end_saved_; }
  bool lost_leadership() const { return log_.lost_leadership(); }
  bool no_members_left() const;

  // ---- Requests of members. See protocol.h.

  /// Replies when there is a view with this process in it, to a learner at once.
  void join(Time now, const net::SessionPtr& session, const net::FrameHeader& header,
            const cluster::JoinRequest& request);
  cluster::HeartbeatReply heartbeat(Time now, std::uint64_t session, const cluster::Heartbeat& beat);
  void set_plan(Time now, const cluster::Plan& plan);
  cluster::LeaseReply lease(Time now, const cluster::LeaseRequest& request);
  void rewind(const cluster::RewindRequest& request);
  void set_result(const cluster::ResultReport& report);
  void stop(const cluster::StopRequest& request);
  void scale(Time now, const cluster::ScaleRequest& request);
  void leave(Time now, const cluster::LeaveNotice& notice);
  void checkpoint(Time now, const cluster::CheckpointNow& request);
  cluster::RecordReply record(Time now, const cluster::RecordRequest& request);
  void add_spans(cluster::SpanReport report);
  cluster::RecordedReply recorded(const cluster::RecordedQuery& query) const;

  /// Gives out a slot that nobody has, in the order of the calls. Throws InvalidArgument if all are given out.
  cluster::SlotClaim claim(cluster::Role role);

  // ---- What happens by itself.

  /// A connection has ended: the member behind it is dead.
  void disconnected(Time now, std::uint64_t session);

  /// Does what is due at this time; called periodically.
  void tick(Time now);

  /// The write that was started has ended.
  void saved(Time now, const SaveResult& result);

  /// Calls `then` when the decisions so far are saved, or the store turns out to be out of reach.
  void when_saved(std::function<void()> then);

 private:
  bool elastic() const { return plan_ && plan_->elastic; }
  bool is_chief(cluster::MemberId member) const { return !view_.workers.empty() && view_.workers.front().id == member; }
  std::string missing() const { return describe_missing(options_.shape, members_.states()); }
  ServerTarget server_target() const { return {.servers = wanted_servers_, .copies = 1 + options_.shape.replicas}; }
  std::uint32_t wanted(cluster::Role role) const {
    return role == cluster::Role::kWorker ? wanted_workers_ : wanted_servers_;
  }
  std::uint32_t most_workers() const { return std::min(plan_->lanes, wanted_workers_); }  // at least one lane each
  LeasePlan lease_plan() const;
  std::string describe_state() const;
  void add_living(const cluster::MemberInfo& info, Time now, std::vector<cluster::MemberStatus>& to) const;
  void note_progress();
  std::uint64_t progress() const;

  void take_over(const SavedJob& saved);
  SavedJob to_save() const;
  void save() { log_.save(); }
  void save_leases();

  cluster::LeaseReply lease_more(const cluster::LeaseRequest& request);
  Member& admit(std::uint64_t session, const cluster::JoinRequest& request, const std::string& who);
  void readmit(Member& server, std::uint64_t session);
  bool can_be_learner(const Member& member) const;
  cluster::JoinReply receive(const Member& learner) const;
  void release(Member& member);
  bool plan_is_due() const;
  void consider_view();
  ViewInputs view_inputs() const;
  void watch_paces();
  bool regroups() const { return decision_.kind == ViewDecision::Kind::kRegroup; }
  bool others_wait() const;
  void wait_for_members();
  void wait_for_holder(const Member& holder);
  void wait_to_save();
  void form_view(const std::vector<cluster::MemberId>& workers, const std::string& because);
  void enter_proposed_view();
  bool all_wait(const cluster::ViewInfo& view) const;
  void end_gathering();
  void heed_reports(cluster::MemberId from, const cluster::ShardReports& told);
  void notice_own_absence();
  void give_time_to_come_back(Member& member) const;
  bool note_apart(const Member& member, cluster::MemberId other);
  void note_reached(const Member& member, cluster::MemberId other);
  std::vector<ApartPair> apart() const;
  std::vector<ApartPair> apart_servers() const;
  std::vector<cluster::MemberInfo> to_try(const Member& member) const;
  void keep_out_servers();
  void judge(Member& member);
  void lose(Member& member, const Health& health);
  void check_scale(const cluster::ScaleRequest& request) const;
  void describe_lanes(cluster::JobStatus& status) const;
  Step newest_common_step(Time now) const;
  void finish_job();
  void fail_job(const std::string& reason);

  const MasterOptions options_;
  const Time started_;
  Time now_;  // of the current call
  Time last_tick_;
  Time grace_until_{};  // until then the end of a connection does not mean death
  MasterLog log_;
  bool end_saved_ = false;  // that the job is finished
  std::string launch_;
  cluster::JobPhase state_ = cluster::JobPhase::kGathering;
  std::string reason_;
  Time waiting_since_{};
  bool stop_ = false;
  std::uint32_t wanted_workers_;
  std::uint32_t wanted_servers_;
  cluster::ViewInfo view_;

  /// A view on its way to the store: no member knows it yet.
  struct ProposedView {
    cluster::ViewInfo view;
    std::string because;
    bool rebalanced = false;
  };
  std::optional<ProposedView> proposed_;
  std::uint32_t unsaved_reports_ = 0;  // of copies in sync: a successor would not know yet
  bool broken_ = false;                // a member of the view is gone
  std::string last_failure_;           // which one, and why
  ViewDecision decision_;              // about the current view
  cluster::MemberId next_member_ = 1;
  MemberTable members_;
  std::map<cluster::Role, std::uint32_t> claimed_;  // how many slots were given out by arrival
  ApartPairs apart_;                                // not saved: a successor finds out again
  std::string servers_left_out_;
  std::string place_anew_;   // why shards should be placed again, besides what the places themselves say
  std::string save_wanted_;  // why a checkpoint should be made now
  std::optional<cluster::Plan> plan_;
  MetricsAggregator metrics_;
  LeaseTable leases_;
  bool leases_changed_ = false;  // since the last tick
  Time last_pause_;
  std::vector<cluster::Straggler> stragglers_;
  std::vector<double> lane_costs_;  // the costs to deal lanes by in the next view; empty = no change
  Time view_since_{};
  nlohmann::json result_;

  // What has happened, for people. Not saved: a successor counts anew.
  std::map<std::string, std::uint64_t> failures_;
  cluster::DurationHistogram recoveries_{.bounds = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}};
  std::optional<Time> lost_at_;               // since when no step is made, because a member was lost
  std::uint64_t made_by_then_ = 0;            // progress() when the view after that began
  std::map<std::uint32_t, Time> slow_since_;  // by slot, of `stragglers_`
  SpanCollector spans_;
  const std::string clock_id_ = cluster::own_clock_id();
};

}  // namespace trireme::master
