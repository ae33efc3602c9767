#pragma once

// Parameters on servers, for programs of your own. No LibTorch needed: Trireme::core.
//
//   const auto job = trireme::Job::join();                                    // trireme run -w 2 -s 2 -- ./program
//   trireme::ps::ParameterTables model(*job, {{"weights", 1000}, {"bias", 1}}, {.lr = 0.1});
//   model.initialise();                                                       // what the chief's tables hold
//   for (int step = 0; step < 100; ++step) {
//     compute(model.parameters("weights"), model.gradients("weights"));       // spans of floats
//     model.push({.samples = 32});
//     model.wait();                                                           // the parameters are new
//   }
//   model.leave();
//
// A server may die if there are two or more (each shard has a replica), and so may a worker: see `wait`.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/codec.h"
#include "trireme/job.h"
#include "trireme/optimizer.h"
#include "trireme/strategy.h"
#include "trireme/types.h"

namespace trireme::ps {

/// A named array of float32 parameters. Servers cut it into chunks and share these.
struct Table {
  std::string name = {};
  std::size_t elements = 0;
};

struct ParameterTablesOptions {
  optim::UpdateConfig optimizer = {};  ///< the rule that servers apply to gradients; its state lives there too
  double lr = 0.01;                    ///< learning rate of a push that names none
  Consistency consistency = {};        ///< who waits for whom: bsp (default), ssp, asp; see parse_consistency
  codec::Spec codec = {};              ///< how gradients travel; see codec::parse_spec
};

/// What the gradients of a push represent.
struct PushOptions {
  double samples = 1;  ///< the gradients are summed over this many; the update takes the mean over all workers' samples
  double lr = 0;       ///< learning rate of this step; 0 = that of the tables
};

/// How a push ended.
struct PushResult {
  Step version = 0;     ///< updates that the parameters have seen; with ssp and asp every worker's push makes one
  bool counted = true;  ///< false: it came too late to count (bsp with backup workers)
  bool stop = false;    ///< the job was asked to end: make no further step
};

/// Tables of parameters on the servers of a job, as one of its workers uses them. All workers name the same tables with
/// the same options. Not thread-safe. Follows the job from view to view by itself. `job` must outlive it.
class ParameterTables {
 public:
  /// Agrees with the servers on the tables; blocks until they answer. Throws InvalidArgument (the job has no servers,
  /// no tables are given, or other workers named different ones), PeerLost, Timeout.
  ParameterTables(Job& job, std::vector<Table> tables, ParameterTablesOptions options = {});
  ~ParameterTables();

  /// The memory of a table: parameters as of the last `initialise`, `pull` or `wait`, which also end the validity of
  /// the span; gradients, summed over this worker's samples, for the next `push`. Throw InvalidArgument if there is no
  /// such table.
  std::span<float> parameters(std::string_view table);
  std::span<float> gradients(std::string_view table);

  /// Makes the contents of the chief's tables the initial values, unless the servers already have values: a worker that
  /// joins later gets those. Every worker calls it once, before anything else; blocks until the values are there.
  /// Returns their version. Throws PeerLost, Timeout.
  Step initialise();

  /// Fetches the current values of all parameters, and returns their version. Throws PeerLost, Timeout.
  Step pull();

  /// Sends the gradients of all tables; returns at once. Until `wait`, the gradients must not change and the parameters
  /// must not be used. Throws InvalidArgument if the last push was not waited for.
  void push(const PushOptions& options = {});

  /// Waits until the servers have made the update and the new parameters are here. With bsp that is when all workers
  /// have pushed; with ssp a worker that is too far ahead is held back here.
  ///
  /// If a server or another worker dies meanwhile, it continues with the others in the next view and pushes again; the
  /// push counts once. Throws InvalidArgument if there was no push or the parameters are lost (the only copy died),
  /// PeerLost if the job has ended, Timeout.
  PushResult wait();

  /// Ends this worker's part: it will push no more. Includes `Job::leave`. Throws PeerLost.
  void leave();

  Step version() const;             ///< of the parameters that are here
  std::size_t bytes_moved() const;  ///< pushed and pulled so far, as sent

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::ps
