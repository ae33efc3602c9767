#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "base/mutex.h"
#include "store/etcd_client.h"
#include "store/store.h"

namespace trireme::store {

/// Where a job keeps what, in etcd.
struct EtcdKeys {
  std::string leader;
  std::string data;  ///< before the key of every entry
};

/// Being the owner of the leader's key. One thread keeps its lease alive; its end waits for a renewal that is under
/// way, for at most the lease's time.
class EtcdLeadership : public Leadership {
 public:
  struct Won {
    EtcdClient::Lease lease;
    Deadline::Clock::time_point asked;  ///< just before the lease was asked for
    std::int64_t create_revision = 0;   ///< of the leader's key
  };

  EtcdLeadership(const std::vector<net::Address>& members, EtcdKeys keys, std::chrono::milliseconds call_within,
                 const Won& won);
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
  [[noreturn]] void end(const std::string& reason);

  const EtcdKeys keys_;
  const std::chrono::milliseconds call_within_;
  const EtcdClient::Lease lease_;
  const std::int64_t create_revision_;

  std::atomic<bool> over_ = false;
  std::atomic<Deadline::Clock::time_point> sure_until_;

  Mutex commit_mutex_;
  EtcdClient commits_ TRIREME_GUARDED_BY(commit_mutex_);
  std::int64_t version_ TRIREME_GUARDED_BY(commit_mutex_) = 1;  // of the leader's key: it counts our commits
  /// The last commit failed: whether it was done, or will be, is not known.
  bool unsettled_ TRIREME_GUARDED_BY(commit_mutex_) = false;

  EtcdClient renewals_;  // of its own, so that a slow commit does not cost the lease
  std::jthread thread_;
};

}  // namespace trireme::store
