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
/// Under `trireme run`, mpirun, srun, torchrun, TF_CONFIG and others (docs/clusters.md) it joins the job it was started
/// for. Started by hand, it is a job of its own: one worker, with master and server as threads of this process, so the
/// same program runs everywhere.
///
/// Workers may join and leave while a `Trainer` runs: the numbers below are those of the current view. Thread-safe,
/// except for `ranks`.
class Job {
 public:
  /// Blocks until all workers and servers have joined. Throws InvalidArgument (an environment variable is invalid),
  /// Timeout or PeerLost (the master or a member is missing), Unauthenticated.
  static std::unique_ptr<Job> join();

  explicit Job(std::unique_ptr<JobSession> session);  ///< for Trireme itself
  ~Job();

  Rank rank() const;                          ///< this worker's position among those of the current view
  std::uint32_t workers() const;              ///< how many there are in it
  bool chief() const { return rank() == 0; }  ///< the one that prints, evaluates and saves
  View view() const;                          ///< the number of the view: another one when somebody came or went
  bool alone() const;                         ///< not started by a launcher: there is no other process
  std::uint32_t slot() const;  ///< which of the job's worker processes this is; does not change with the view

  /// All workers as equals: see collective.h. The first call connects to them and blocks until all are connected; it
  /// throws Timeout naming the missing ranks, PeerLost. When the job fails, their operations fail with its reason. Not
  /// thread-safe. Not to be used together with a Trainer.
  collective::Communicator& ranks();

  /// Returns the folder for the files of this run, which the chief writes; on other workers perhaps nullopt.
  std::optional<std::filesystem::path> folder() const;

  /// Returns whether the job was asked to end after the current step: Ctrl-C, `trireme stop`.
  bool stop_requested() const;

  /// Tells the master that this worker is done, so that its exit does not count as a failure. Throws PeerLost if the
  /// master is gone. Trainer::fit and dist::World::finish do this themselves.
  void leave();

  JobSession& session() { return *session_; }  ///< for Trireme itself

 private:
  std::unique_ptr<JobSession> session_;
};

}  // namespace trireme
