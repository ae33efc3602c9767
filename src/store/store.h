#pragma once

// State that must outlive the master: membership, plan, leases, the stop flag, the result. Keys and values are bytes.
//
//   memory:                           this process, for tests (memory_store.h)
//   sqlite:/folder/job.db, or a path  a file on a local disk, the default; a master that died is replaced at once
//   etcd://a:2379,b:2379,c:2379/job   an etcd cluster (3.4 or newer), for masters on several machines. When the leader
//                                     dies or hangs, another takes over within 3 s; in about 5 s if the leader of etcd
//                                     died with it, because etcd elects another first and restarts the time of every
//                                     lease. Plain HTTP: for loopback and trusted networks
//   etcds://a:2379/job?ca=F&auth=F    the same over TLS; as a user, or with a client certificate (etcd_store.h)
//
// Anyone may read; only the leader writes, through its Leadership. A leader that was stopped and replaced meanwhile
// cannot write any more, whatever it believes: every commit is checked against the leadership in the same transaction.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trireme/deadline.h"

namespace trireme::store {

/// Changes to write: key -> its new value; nullopt removes the key if it exists.
using Changes = std::map<std::string, std::optional<std::string>>;

/// Limits of one commit, the same for every kind of store; etcd's are the tightest.
constexpr std::size_t kMostChanges = 100;
constexpr std::size_t kMostCommitBytes = 1280UL * 1024;  ///< keys and values together

/// A process that wants to lead. Both fields are text (UTF-8).
struct Candidate {
  std::string name;   ///< for people: "master on node7, pid 4711"
  std::string value;  ///< how others reach it: the address of the master
};

struct Leader {
  std::string name;
  std::string value;
  std::uint64_t term = 0;  ///< grows with every change of leadership
};

struct Campaign {
  Candidate candidate;
  /// etcd: a leader silent for this long is replaced. Rounded up to seconds; etcd raises it to 1.5 times its own
  /// election timeout (2 s by default). Other stores notice a death at once and do not need it.
  std::chrono::milliseconds ttl = 2s;
  Deadline deadline = Deadline::in(10s);  ///< if it has already passed: try once
  /// etcd keeps every value that any key ever had, until told otherwise: the leader lets it forget those that are older
  /// than this many of its own commits. Other stores keep only the last one.
  std::uint32_t kept_commits = 1000;
};

/// The right to write. Thread-safe; may outlive its Store. The destructor ends the leadership silently: the next leader
/// follows when the lease has expired (etcd) or at once; see resign().
class Leadership {
 public:
  virtual ~Leadership() = default;

  virtual std::uint64_t term() const = 0;

  /// Returns whether this is certainly still the leader. Cheap: only reads the clock. Becomes false some time *before*
  /// another could lead; while the store is out of reach it may be false and then true again, if nobody led in between.
  virtual bool leading() const = 0;

  /// Returns whether another is known to lead or to have led: this object never writes again. Cheap; does not ask the
  /// store, so it may be late.
  virtual bool over() const = 0;

  /// Writes all of `changes`, durably, or none. Concurrent calls are serialised.
  ///
  /// Throws StaleView if another leads or has led, or after resign(): this object never writes again. IoError or
  /// Timeout if the store cannot be reached: it is unknown whether all or nothing was written; commit what matters
  /// again. A write that arrives late never undoes a later commit, by this leader or the next. InvalidArgument beyond
  /// the limits above or for an empty key.
  virtual void commit(const Changes& changes) = 0;

  /// Lets another lead now. Throws IoError or Timeout if the store cannot be reached: the lease then expires by itself.
  virtual void resign() = 0;
};

/// Thread-safe; concurrent calls are serialised. Every call ends within StoreOptions::call_within, except campaign(),
/// which has its own deadline. All throw IoError or Timeout if the store cannot be reached, Corrupt if its content or
/// answer is invalid, Unauthenticated if it does not let this process in.
class Store {
 public:
  virtual ~Store() = default;

  /// Returns what was last committed under `key`; nullopt if nothing is there.
  virtual std::optional<std::string> get(const std::string& key) = 0;

  /// Returns all entries whose keys begin with `prefix`, as of one moment; an empty prefix means all.
  virtual std::map<std::string, std::string> list(const std::string& prefix) = 0;

  /// Returns the leader; nullopt if there is none. It may be outdated as soon as it is read: connect, and ask again if
  /// that fails.
  virtual std::optional<Leader> leader() = 0;

  /// Waits until nobody else leads and takes the lead; returns null if another still leads at the deadline (leader()
  /// says who). Retries an unreachable store (not SQLite) until the deadline, then throws its last failure.
  virtual std::unique_ptr<Leadership> campaign(const Campaign& campaign) = 0;
};

struct StoreOptions {
  std::string location = "memory:";
  std::chrono::milliseconds call_within = 5s;
};

/// Opens the store at `options.location`; etcd is contacted only when the store is used. Throws InvalidArgument for an
/// invalid location (or SQLite where Trireme was built without it), IoError or Corrupt if the file cannot be used.
std::unique_ptr<Store> open_store(const StoreOptions& options);

/// Returns whether Trireme was built with SQLite.
bool sqlite_store_available();

/// Throws InvalidArgument if `changes` exceed the limits of a commit: for implementations of Leadership.
void check_changes(const Changes& changes);

}  // namespace trireme::store
