#include "store/etcd_leadership.h"

#include "base/error.h"
#include "base/log.h"
#include "net/event_loop.h"

namespace trireme::store {

using Clock = Deadline::Clock;

EtcdLeadership::EtcdLeadership(const EtcdAccess& access, EtcdKeys keys, std::chrono::milliseconds call_within,
                               const Won& won)
    : keys_(std::move(keys)),
      call_within_(call_within),
      lease_(won.lease),
      create_revision_(won.create_revision),
      commits_(access),
      kept_commits_(won.kept_commits),
      renewals_(access) {
  renewed(won.asked, won.lease.ttl);
  thread_ = std::jthread([this](const std::stop_token& stop) { keep_alive(stop); });
}

EtcdLeadership::~EtcdLeadership() = default;

bool EtcdLeadership::leading() const { return !over_ && Clock::now() < sure_until_.load(); }

/// etcd counts the time from when it receives the request, which is after `asked`. A tenth is reserved for clocks that
/// run at different speeds, and for callers acting on the result of leading().
void EtcdLeadership::renewed(Clock::time_point asked, std::chrono::milliseconds ttl) {
  sure_until_ = asked + ttl - ttl / 10;
}

void EtcdLeadership::keep_alive(const std::stop_token& stop) {
  net::name_thread("store lease");
  const std::chrono::milliseconds ttl = lease_.ttl;
  bool troubled = false;
  while (!sleep_for(stop, ttl / 4) && !over_) {
    const auto asked = Clock::now();
    const Clock::duration left = sure_until_.load() - asked;
    try {
      const auto renewed_for = renewals_.keep_alive(lease_.id, Deadline::in(std::max<Clock::duration>(left, ttl / 2)));
      if (renewed_for == 0s) {
        if (over_.exchange(true)) return;  // resigned meanwhile
        log_error("leadership_lost", "lost the leadership: its lease has expired", {{"term", term()}});
        return;
      }
      renewed(asked, renewed_for);
      if (std::exchange(troubled, false))
        log_info("leadership_renewed", "the leadership lease is renewed again", {{"term", term()}});
    } catch (const Error& problem) {  // leading() becomes false in time; the lease may still outlast the trouble
      if (!std::exchange(troubled, true))
        log_warn("leadership_renewal_failed", "cannot renew the leadership lease", {{"reason", problem.what()}});
    }
  }
}

void EtcdLeadership::commit(const Changes& changes) {
  check_changes(changes);
  const MutexLock lock(commit_mutex_);
  if (over_) end("it was given up, or its lease ran out");
  // A failed commit may be stuck in a member that hangs and be applied much later. It expects the version that it knew:
  // incrementing that settles it, either by the late commit itself or by an empty one that takes its place.
  const Deadline deadline = Deadline::in(call_within_);
  if (unsettled_) write({}, deadline);
  write(changes, deadline);
}

void EtcdLeadership::write(const Changes& changes, Deadline deadline) {
  EtcdTransaction transaction{
      .key = keys_.leader, .create_revision = create_revision_, .version = version_, .touch_key = true};
  for (const auto& [key, value] : changes) {
    if (value) {
      transaction.puts.push_back({.key = keys_.data + key, .value = *value});
    } else {
      transaction.removals.push_back(keys_.data + key);
    }
  }
  unsettled_ = true;
  const EtcdClient::Outcome outcome = commits_.run(transaction, deadline);
  unsettled_ = false;
  // A request that was sent twice finds its own work done: only we increment the version of our key.
  const bool done_before =
      outcome.found && outcome.found->create_revision == create_revision_ && outcome.found->version == version_ + 1;
  if (!outcome.done && !done_before) end("another took the lead, or its lease ran out");
  ++version_;
  forget_history(outcome.revision, deadline);
}

/// etcd has a quota: without this, a job whose leases change all the time reaches it in days. A failure costs nothing
/// but space; the next time makes up for it.
void EtcdLeadership::forget_history(std::int64_t revision, Deadline deadline) {
  if (++commits_since_mark_ < kept_commits_) return;
  commits_since_mark_ = 0;
  const std::int64_t before = std::exchange(mark_, revision);
  if (before == 0) return;
  try {
    commits_.compact(before, deadline);
  } catch (const Error& problem) {
    log_warn("history_not_compacted", "etcd did not forget old values; will try again", {{"reason", problem.what()}});
  }
}

void EtcdLeadership::resign() {
  over_ = true;
  thread_.request_stop();
  renewals_.revoke(lease_.id, Deadline::in(call_within_));
}

void EtcdLeadership::end(const std::string& reason) {
  over_ = true;
  fail<StaleView>("the leadership of term {} in etcd is over: {}; campaign again, or end", term(), reason);
}

}  // namespace trireme::store
