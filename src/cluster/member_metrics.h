#pragma once

#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "base/mutex.h"
#include "cluster/protocol.h"
#include "net/http/server.h"

namespace trireme::cluster {

/// Where a process is to serve its own `/metrics`: "9100", "127.0.0.1:9100" or "[::1]:9100".
///
/// Throws InvalidArgument if it is neither, or another host than this one could connect: the page of the run has the
/// numbers of all processes for those, with TLS and a token.
net::Address parse_metrics_address(const std::string& text);

/// `/metrics`, `/healthz` and `/readyz` of one process of a job, for a scraper on its host: it answers also while there
/// is no master. Thread-safe; one thread of its own, the server's.
class MemberMetrics final : private net::HttpHandler {
 public:
  /// Listens on the first free port from that of `listen` on (the processes of a host are all told the same one), or on
  /// any if that is 0. Throws IoError if there is none.
  MemberMetrics(const net::Address& listen, Role role, std::uint32_t slot);
  ~MemberMetrics() override;

  /// Returns host:port.
  std::string address() const;

  /// The process is about to send `beat`, as a member of `view`.
  void add(const Heartbeat& beat, View view);

  /// The master has answered a heartbeat.
  void note_answer();

 private:
  net::HttpReply answer(const net::HttpRequest& request) override;
  std::unique_ptr<net::HttpFeed> feed(const net::HttpRequest& request) override;
  std::string text(bool open_metrics) const;

  const std::string host_;
  const Role role_;
  const std::uint32_t slot_;
  mutable Mutex mutex_;
  WorkDone work_ TRIREME_GUARDED_BY(mutex_);            // all of it so far; of `loss_sum` what came last
  std::uint64_t samples_ TRIREME_GUARDED_BY(mutex_){};  // of which `work_.loss_sum` is the sum
  Heartbeat last_ TRIREME_GUARDED_BY(mutex_);
  HostLoad load_ TRIREME_GUARDED_BY(mutex_);
  View view_ TRIREME_GUARDED_BY(mutex_) = 0;
  Deadline::Clock::time_point answered_ TRIREME_GUARDED_BY(mutex_) = Deadline::Clock::now();
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace trireme::cluster
