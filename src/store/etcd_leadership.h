#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "base/mutex.h"
#include "store/etcd_client.h"
#include "store/store.h"

namespace trireme::store {

/// The keys of a job in etcd.
struct EtcdKeys {
  std::string leader;
  std::string data;  ///< prefix of the key of every entry
};

/// Ownership of the leader's key. One thread keeps its lease alive; the destructor waits for a renewal in progress, at
/// most for the lease's time.
class EtcdLeadership : public Leadership {
 public:
  struct Won {
    EtcdClient::Lease lease;
    Deadline::Clock::time_point asked;  ///< just before the lease was requested
    std::int64_t create_revision = 0;   ///< of the leader's key
    std::uint32_t kept_commits = 0;     ///< see Campaign
  };

  EtcdLeadership(const EtcdAccess& access, EtcdKeys keys, std::chrono::milliseconds call_within, const Won& won);
  ~EtcdLeadership() override;

  std::uint64_t term() const override { return static_cast<std::uint64_t>(create_revision_); }
  bool leading() const override;
  bool over() const override { return over_; }
  void commit(const Changes& changes) override;
  void resign() override;

 private:
  void keep_alive(const std::stop_token& stop);
  void renewed(Deadline::Clock::time_point asked, std::chrono::milliseconds ttl);
  void write(const Changes& changes, Deadline deadline) TRIREME_REQUIRES(commit_mutex_);
  void forget_history(std::int64_t revision, Deadline deadline) TRIREME_REQUIRES(commit_mutex_);
  [[noreturn]] void end(const std::string& reason);

  const EtcdKeys keys_;
  const std::chrono::milliseconds call_within_;
  const EtcdClient::Lease lease_;
  const std::int64_t create_revision_;

  std::atomic<bool> over_ = false;
  std::atomic<Deadline::Clock::time_point> sure_until_;

  Mutex commit_mutex_;
  EtcdClient commits_ TRIREME_GUARDED_BY(commit_mutex_);
  std::int64_t version_ TRIREME_GUARDED_BY(commit_mutex_) = 1;  // of the leader's key: counts our commits
  /// The last commit failed: it is unknown whether it was applied or still will be.
  bool unsettled_ TRIREME_GUARDED_BY(commit_mutex_) = false;

  const std::uint32_t kept_commits_;
  std::uint32_t commits_since_mark_ TRIREME_GUARDED_BY(commit_mutex_) = 0;
  std::int64_t mark_ TRIREME_GUARDED_BY(commit_mutex_) = 0;  // a revision; history is kept from it on, or longer

  EtcdClient renewals_;  // separate, so that a slow commit does not cost the lease
  std::jthread thread_;
};

}  // namespace trireme::store
