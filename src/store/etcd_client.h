#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/etcd_gateway.h"

namespace trireme::store {

/// An entry of etcd. Counters as etcd has them: a key's version starts at 1 and grows with each put.
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
  std::int64_t lease = 0;  ///< the entry goes when this lease does; 0 = it stays
};

/// If `key` is at `create_revision` (0 = not there) and, unless 0, at `version`, then all the changes are made.
struct EtcdTransaction {
  std::string key;
  std::int64_t create_revision = 0;
  std::int64_t version = 0;
  std::vector<EtcdPut> puts;
  std::vector<std::string> removals;
  bool touch_key = false;  ///< also put `key` again, as it is: its version grows
};

/// The verbs of etcd that we need. Thread-safe. Any call may reach etcd more than once (see EtcdGateway), which also
/// says what they throw.
class EtcdClient {
 public:
  explicit EtcdClient(const std::vector<net::Address>& members) : gateway_(members) {}

  /// The entry at `key`, as of now (linearizable).
  std::optional<EtcdEntry> get(const std::string& key, Deadline deadline);

  /// All entries whose keys begin with `prefix`, as of one moment.
  std::vector<EtcdEntry> list(const std::string& prefix, Deadline deadline);

  struct Outcome {
    bool done = false;
    std::int64_t revision = 0;       ///< of the whole store, now
    std::optional<EtcdEntry> found;  ///< if not done: what is at the key that was compared
  };
  Outcome run(const EtcdTransaction& transaction, Deadline deadline);

  struct Lease {
    std::int64_t id = 0;
    std::chrono::seconds ttl{0};  ///< may be more than was asked for
  };
  Lease grant(std::chrono::seconds ttl, Deadline deadline);

  /// Starts the lease's time anew and tells how long it is; 0 = the lease is gone.
  std::chrono::seconds keep_alive(std::int64_t lease, Deadline deadline);

  /// Ends the lease and removes its entries; no matter if it has ended before.
  void revoke(std::int64_t lease, Deadline deadline);

 private:
  /// Asks, and reads the answer by `decode`; an answer of another shape is Corrupt.
  template <typename Decode>
  auto ask(const std::string& path, const nlohmann::json& question, Deadline deadline, const Decode& decode);

  EtcdGateway gateway_;
};

}  // namespace trireme::store
