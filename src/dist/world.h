#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/dist.h"

#include "base/mutex.h"
#include "collective/communicator.h"
#include "dist/loop_reports.h"
#include "dist/negotiation.h"
#include "job/job_session.h"

namespace trireme::dist {

class Channel;

struct World::Impl {
  explicit Impl(std::unique_ptr<Job> joined = nullptr) : job(std::move(joined)) {}
  ~Impl();  // also if the constructor of the world throws: the job must not call into it any more
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Talks to `communicator`'s ranks from now on. A collective call.
  void connect(collective::Communicator& communicator, const std::string& host);

  /// Forgets the ranks, with what is on its way, until the next `connect`: they are about to meet in another view.
  void disconnect();

  /// Makes all waits of the channels fail. From any thread.
  void abort_channels(const std::string& reason);

  /// Throw InvalidArgument while this process is not one of the ranks; see `newcomer`.
  collective::Communicator& ranks() const;
  Negotiation& negotiation();

  /// Returns whether the others are at work already: they do not expect a call of this process before it takes part in
  /// their loop (elastic.h).
  bool newcomer() const;
  void guess_neighbours();

  void find_neighbours(const std::string& host);

  /// For the progress line: an optimizer has made so many steps; means over all ranks.
  void report_step(Step made);
  void report_averages(const std::map<std::string, double>& means);
  void report(const std::map<std::string, double>& values, Step step);

  /// On the chief: says what the job has achieved, to the master and in a file of the run.
  void post_result();

  std::shared_ptr<FusedReduce> reduce(const std::vector<torch::Tensor>& in, const std::vector<torch::Tensor>& out,
                                      const ReduceOptions& options, bool in_background);

  std::unique_ptr<Job> job;                       // null if made from a communicator
  collective::Communicator* connected = nullptr;  // null: not one of the ranks at the moment
  std::optional<Negotiation> own_negotiation;     // of these
  bool over = false;                              // `elastic` has said goodbye
  std::uint32_t optimizers = 0;                   // made for this world
  bool broadcasts = false;                        // something was broadcast: parameters, perhaps
  Rank local_rank = 0;
  std::uint32_t local_size = 1;
  std::uint32_t channels_opened = 0;
  Step steps = 0;                          // of the optimizer that has made the most, or reported
  bool stop_agreed = false;                // by all ranks: any of them may have been asked, and not this one
  std::string state_sha256;                // at the end of `elastic`
  std::optional<LoopReports> reports;      // the chief's, once it has something to report
  std::map<std::string, double> reported;  // last
  Mutex mutex;
  std::vector<Channel*> channels TRIREME_GUARDED_BY(mutex);  // the job's failure comes from its thread
  std::vector<std::shared_ptr<FusedReduce>> reduces;         // perhaps with nobody who waits for them
};

/// A group of its own over all ranks of a world, for whatever sends when it wants to: what goes over it is ordered by
/// itself. `World::join` serves it as well. A collective call.
class Channel {
 public:
  explicit Channel(World::Impl& world, const std::string& name);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  collective::Communicator& ranks() { return *ranks_; }
  Negotiation& negotiation() { return negotiation_; }

 private:
  static std::unique_ptr<collective::Communicator> open(World::Impl& world, const std::string& name);

  World::Impl& world_;
  std::unique_ptr<collective::Communicator> ranks_;
  Negotiation negotiation_;
};

}  // namespace trireme::dist
