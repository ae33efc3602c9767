#pragma once

#include <filesystem>
#include <memory>

#include "cluster/protocol.h"
#include "net/connection.h"

namespace trireme::launch {

/// A run in progress, through its master, whose address is in the run's folder or known. Not thread-safe.
class RunningJob {
 public:
  /// Throws InvalidArgument if the folder is not that of a run in progress, PeerLost if its master is gone.
  explicit RunningJob(const std::filesystem::path& run);

  /// The one whose master is at `master`; throws Unauthenticated if it has another secret.
  RunningJob(const net::Address& master, const std::string& secret);

  cluster::JobStatus status();
  void scale(const cluster::ScaleRequest& request);
  void stop(const std::string& reason);
  void checkpoint(const std::string& reason);

  /// See master::Master.
  std::uint64_t record(Step steps);
  cluster::CollectedSpans recorded(std::uint64_t request);

 private:
  void connect(const net::Address& master, const std::string& secret);

  net::EventLoop loop_{"job-net", 1};
  std::shared_ptr<net::Connection> master_;
};

}  // namespace trireme::launch
