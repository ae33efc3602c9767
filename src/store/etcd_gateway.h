#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/mutex.h"
#include "net/http_client.h"

namespace trireme::store {

/// etcd says that what the question is about is not there.
class EtcdNotFound : public IoError {
 public:
  using IoError::IoError;
};

/// Asks whichever member of an etcd cluster answers, through its JSON gateway (etcd 3.4 or newer), over plain HTTP.
/// Thread-safe; one question at a time. The member that answered last is asked first.
class EtcdGateway {
 public:
  explicit EtcdGateway(const std::vector<net::Address>& members);

  struct Answer {
    nlohmann::json body;
    std::string member;  ///< who gave it: "http://10.0.0.7:2379"
  };

  /// Posts `question` to `path` at one member after the other, for an equal part of the time each, until one answers or
  /// the deadline passes. So it may be asked, and done, several times: make sure that does no harm.
  ///
  /// Throws Timeout if members stayed silent, IoError if none could be reached or etcd refuses (EtcdNotFound is one),
  /// InvalidArgument if etcd finds the question wrong, Corrupt if the answer is no JSON or too large. All name the
  /// members.
  Answer ask(const std::string& path, const nlohmann::json& question, Deadline deadline);

 private:
  /// What one member did with a question.
  struct Attempt {
    bool answered = false;
    bool silent = false;
    std::string problem;
    nlohmann::json body;
  };
  static Attempt attempt(net::HttpClient& member, const net::HttpPost& post);
  [[noreturn]] static void give_up(const std::string& path, Deadline deadline, const std::vector<Attempt>& attempts);

  /// Being the one whose question is asked. Others wait for it no longer than they have time.
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
  std::vector<net::HttpClient> members_;  // whoever has the turn, as the next
  std::size_t current_ = 0;
};

}  // namespace trireme::store
