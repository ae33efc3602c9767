#pragma once

// What must outlive the master: membership, plan, leases, the stop flag, the result. Keys and values are bytes.
//
//   memory:                           this process, for tests (memory_store.h)
//   sqlite:/folder/job.db, or a path  a file on a local disk, the default; a master that died is replaced at once
//   etcd://a:2379,b:2379,c:2379/job   an etcd cluster (3.4 or newer), for masters on several machines. When the one in
//                                     charge dies or hangs, another takes over within 3 s; in about 5 s if the leader
//                                     of etcd died with it, for etcd elects another first and gives every lease its
//                                     time anew. Plain HTTP without passwords: TLS to etcd is not supported yet, so
//                                     keep it on a network that is trusted
//
// Anybody reads; only the leader writes, through its Leadership. A leader that was stopped and replaced in the meantime
// cannot write any more, whatever it believes: every commit is checked against the leadership in the same transaction.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trireme/deadline.h"

namespace trireme::store {

/// What to write: key -> its new value; nullopt removes the key, if it is there.
using Changes = std::map<std::string, std::optional<std::string>>;

/// Limits of one commit, so that every tenant takes what one of them takes; etcd's are the narrowest.
constexpr std::size_t kMostChanges = 100;
constexpr std::size_t kMostCommitBytes = 1280UL * 1024;  ///< keys and values together

/// Who wants to lead. Both are text (UTF-8).
struct Candidate {
  std::string name;   ///< for people: "master on node7, pid 4711"
  std::string value;  ///< how others find it: the address of the master
};

struct Leader {
  std::string name;
  std::string value;
  std::uint64_t term = 0;  ///< grows with every change of leadership
};

struct Campaign {
  Candidate candidate;
  /// etcd: a leader not heard of for so long is replaced. Rounded up to seconds; etcd raises it to 1.5 times its own
  /// election timeout (2 s by default). Other tenants notice a death at once and do not need it.
  std::chrono::milliseconds ttl = 2s;
  Deadline deadline = Deadline::in(10s);  ///< one that has passed means: try once
};

/// Being the one who may write. Thread-safe; may outlive its Store. Its end gives the leadership up without telling:
/// the next leader comes when the lease has run out (etcd) or at once; see resign().
class Leadership {
 public:
  virtual ~Leadership() = default;

  virtual std::uint64_t term() const = 0;

  /// Whether this is surely still the leader. Cheap: looks at the clock, asks nobody. False some time *before* another
  /// could lead; while the store is out of reach it may be false and then true again, nobody having led in between.
  virtual bool leading() const = 0;

  /// Whether it is known that another leads or led meanwhile: this object never writes again. Cheap; asks nobody, so it
  /// may be a while before it says so.
  virtual bool over() const = 0;

  /// Writes all of `changes`, durably, or none. Threads take turns.
  ///
  /// Throws StaleView if another leads or led meanwhile, or after resign(): this object never writes again.
  /// IoError or Timeout if the store cannot be reached: all is written or nothing, it is not known which; commit again
  /// what matters. A write that comes late never undoes a later commit, be it by this leader or the next.
  /// InvalidArgument beyond the limits above or for an empty key.
  virtual void commit(const Changes& changes) = 0;

  /// Lets another lead now. Throws IoError or Timeout if the store cannot be reached: the lease then runs out by
  /// itself.
  virtual void resign() = 0;
};

/// Thread-safe; threads take turns. Every call ends within StoreOptions::call_within, save campaign() which has its own
/// deadline. All throw IoError or Timeout if the store cannot be reached, Corrupt if what it holds or answers makes no
/// sense.
class Store {
 public:
  virtual ~Store() = default;

  /// What was last committed under `key`.
  virtual std::optional<std::string> get(const std::string& key) = 0;

  /// All entries whose keys begin with `prefix`, as of one moment; an empty prefix means all.
  virtual std::map<std::string, std::string> list(const std::string& prefix) = 0;

  /// Who leads; nullopt if nobody does. It may be out of date as soon as it is read: connect, and ask again if that
  /// fails.
  virtual std::optional<Leader> leader() = 0;

  /// Waits until nobody else leads and takes the lead; null if somebody still does at the deadline (leader() says who).
  /// A store out of reach is tried again until the deadline; its last failure is thrown then.
  virtual std::unique_ptr<Leadership> campaign(const Campaign& campaign) = 0;
};

struct StoreOptions {
  std::string location = "memory:";
  std::chrono::milliseconds call_within = 5s;
};

/// Opens the store at `options.location`; etcd is first asked when the store is used. Throws InvalidArgument for a
/// location that names none (or SQLite where Trireme was built without), IoError or Corrupt if the file cannot be used.
std::unique_ptr<Store> open_store(const StoreOptions& options);

/// Whether Trireme was built with SQLite.
bool sqlite_store_available();

/// Throws InvalidArgument if `changes` is beyond what a commit may hold: for tenants.
void check_changes(const Changes& changes);

}  // namespace trireme::store
