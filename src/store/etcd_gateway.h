#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/mutex.h"
#include "net/http/client.h"

namespace trireme::store {

/// Thrown if etcd says that the subject of the request does not exist.
class EtcdNotFound : public IoError {
 public:
  using IoError::IoError;
};

/// Thrown if etcd has forgotten the revision that the request is about.
class EtcdCompacted : public IoError {
 public:
  using IoError::IoError;
};

/// How to reach an etcd, and as whom.
struct EtcdAccess {
  std::vector<net::Address> members;
  std::optional<net::HttpTls> tls = {};  ///< nullopt = plain HTTP
  std::string user = {};                 ///< empty = etcd asks for none
  std::string password = {};
};

/// Asks whichever member of an etcd cluster answers, through its JSON gateway (etcd 3.4 or newer). Thread-safe; handles
/// one request at a time. Tries the member that answered last first.
class EtcdGateway {
 public:
  explicit EtcdGateway(const EtcdAccess& access);

  struct Answer {
    nlohmann::json body;
    std::string member;  ///< who answered: "http://10.0.0.7:2379"
  };

  /// Posts `question` to `path` at one member after the other, for an equal share of the time each, until one answers
  /// or the deadline passes. It may thus be carried out several times: the request must be idempotent.
  ///
  /// Throws Timeout if members stayed silent, IoError if none could be reached or etcd refuses (EtcdNotFound,
  /// EtcdCompacted), InvalidArgument if etcd finds the request invalid, Corrupt if the answer is not JSON or too large,
  /// Unauthenticated if it does not let us in, or we do not trust it. All name the members.
  Answer ask(const std::string& path, const nlohmann::json& question, Deadline deadline);

 private:
  /// The result of a request to one member.
  struct Attempt {
    bool answered = false;
    bool silent = false;
    bool logged_out = false;  ///< etcd does not know our token (any more)
    std::string problem;
    nlohmann::json body;
  };
  static Attempt attempt(net::HttpClient& member, const net::HttpPost& post);
  Attempt attempt_as_user(net::HttpClient& member, net::HttpPost post);
  [[noreturn]] static void give_up(const std::string& path, Deadline deadline, const std::vector<Attempt>& attempts);

  /// The right to use the members, held for one request. The constructor waits for it no longer than the deadline.
  class Turn {
   public:
    Turn(EtcdGateway& gateway, const std::string& path, Deadline deadline);
    ~Turn();

   private:
    EtcdGateway& gateway_;
  };

  Mutex mutex_;
  Condition free_;
  bool taken_ TRIREME_GUARDED_BY(mutex_) = false;
  const std::string user_;
  const std::string password_;
  // Used only by the holder of the Turn:
  std::vector<net::HttpClient> members_;
  std::size_t current_ = 0;
  std::string token_;  // what etcd gave us for user and password; empty = none yet
};

}  // namespace trireme::store
