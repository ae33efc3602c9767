#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/etcd_gateway.h"

namespace trireme::store {

/// An entry of etcd, with etcd's counters: a key's version starts at 1 and grows with each put.
struct EtcdEntry {
  std::string key;
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t version = 0;
  std::int64_t lease = 0;
};

struct EtcdPut {
  std::string key;
  std::string value;
  std::int64_t lease = 0;  ///< the entry is removed with this lease; 0 = it stays
};

/// Makes all the changes if `key` is at `create_revision` (0 = does not exist) and, unless 0, at `version`.
struct EtcdTransaction {
  std::string key;
  std::int64_t create_revision = 0;
  std::int64_t version = 0;
  std::vector<EtcdPut> puts;
  std::vector<std::string> removals;
  bool touch_key = false;  ///< also put `key` again unchanged, which increments its version
};

/// The operations of etcd that we need. Thread-safe. Any call may be carried out more than once (see EtcdGateway, also
/// for what they throw).
class EtcdClient {
 public:
  explicit EtcdClient(const EtcdAccess& access) : gateway_(access) {}

  /// Returns the entry at `key`, as of now (linearizable).
  std::optional<EtcdEntry> get(const std::string& key, Deadline deadline);

  /// Returns all entries whose keys begin with `prefix`, from one revision.
  std::vector<EtcdEntry> list(const std::string& prefix, Deadline deadline);

  struct Outcome {
    bool done = false;
    std::int64_t revision = 0;       ///< of the whole store, now
    std::optional<EtcdEntry> found;  ///< if not done: the entry at the compared key
  };
  Outcome run(const EtcdTransaction& transaction, Deadline deadline);

  /// Lets etcd forget the values that keys had before `revision`, for all its users; does nothing if it has already.
  void compact(std::int64_t revision, Deadline deadline);

  struct Lease {
    std::int64_t id = 0;
    std::chrono::seconds ttl{0};  ///< may be longer than requested
  };
  Lease grant(std::chrono::seconds ttl, Deadline deadline);

  /// Restarts the lease's time and returns it; 0 = the lease is gone.
  std::chrono::seconds keep_alive(std::int64_t lease, Deadline deadline);

  /// Ends the lease and removes its entries; does nothing if it has ended already.
  void revoke(std::int64_t lease, Deadline deadline);

 private:
  /// Asks, and parses the answer with `decode`; an answer of another form throws Corrupt.
  template <typename Decode>
  auto ask(const std::string& path, const nlohmann::json& question, Deadline deadline, const Decode& decode);

  EtcdGateway gateway_;
};

}  // namespace trireme::store
