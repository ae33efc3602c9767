#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "trireme/error.h"
#include "trireme/types.h"

namespace trireme {

namespace collective {
class Communicator;
}
class JobSession;

/// This process as a worker of a job.
///
///   const auto job = trireme::Job::join();
///
/// Under `trireme run` (or TF_CONFIG) it joins the job it was started for. Started by hand, it is a job of its own: one
/// worker, with master and server as threads of this process, so the same program runs everywhere.
///
/// Workers may come and go while a `Trainer` is at work: the numbers below are those of the present view. Thread-safe,
/// but for `ranks`.
class Job {
 public:
  /// Blocks until all workers and servers are here. Throws InvalidArgument (an environment variable), Timeout or
  /// PeerLost (nobody there), Unauthenticated.
  static std::unique_ptr<Job> join();

  explicit Job(std::unique_ptr<JobSession> session);  ///< for Trireme itself
  ~Job();

  Rank rank() const;                          ///< this worker's place among those of the present view
  std::uint32_t workers() const;              ///< how many these are
  bool chief() const { return rank() == 0; }  ///< the one that prints, evaluates and saves
  bool alone() const;                         ///< not started by a launcher: there is no other process
  std::uint32_t slot() const;  ///< which of the job's worker processes this is: stays, whoever comes and goes

  /// All workers as equals: see collective.h. The first call connects to them and blocks until all have made it; it
  /// throws Timeout naming who is missing, PeerLost. The failure of the job makes what they do together fail with its
  /// reason. Called by one thread. Not together with a Trainer.
  collective::Communicator& ranks();

  /// Where this run leaves its files; on the chief, who writes them. Elsewhere perhaps nullopt.
  std::optional<std::filesystem::path> folder() const;

  /// Whether the job is asked to end after the current step: Ctrl-C, `trireme stop`.
  bool stop_requested() const;

  /// Tells the master that this worker's work is done: its end is then no failure. Throws PeerLost if the master is
  /// gone. Trainer::fit and dist::World::finish do it by themselves.
  void leave();

  JobSession& session() { return *session_; }  ///< for Trireme itself

 private:
  std::unique_ptr<JobSession> session_;
};

}  // namespace trireme
