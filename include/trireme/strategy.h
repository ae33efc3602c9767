#pragma once

// How gradients become one update of the parameters, and where these live. As text on the command line
// (`--strategy`, `--consistency`, `--buffers`), as values here.

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/types.h"

namespace trireme::cluster {

/// How often workers that take steps of their own (local SGD) synchronise, and how they combine their parameters then.
struct LocalSgdChoice {
  enum class Outer {
    kNone,      ///< the mean of all workers' parameters
    kSgd,       ///< from the last common parameters towards that mean, by `outer_lr`
    kMomentum,  ///< the same with momentum
    kNesterov,  ///< with Nesterov's: DiLoCo (Douillard et al. 2023)
  };

  Step steps = 16;  ///< that a worker takes on its own between two synchronisations; at least 1
  Outer outer = Outer::kNone;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  /// Above 0 and at most 1: elastic averaging (EASGD, Zhang et al. 2015). Workers keep parameters of their own; a
  /// common centre goes this far towards their mean, and each worker this far, divided by their number, towards it.
  /// 0 = off.
  double elastic = 0;

  bool operator==(const LocalSgdChoice&) const = default;
};

/// Parses what follows "local-sgd:": "16", "16,outer=nesterov,outer-lr=0.7,outer-momentum=0.9", "16,elastic=0.5".
/// Throws InvalidArgument that says what was expected.
LocalSgdChoice parse_local_sgd(std::string_view text);

/// The inverse; settings that the choice does not use are left out.
std::string to_string(const LocalSgdChoice& choice);

/// What workers divide among themselves (ZeRO, Rajbhandari et al. 2020).
struct ZeroChoice {
  std::uint32_t stage = 1;   ///< 1: the optimizer's state; 2: and gradients; 3: and parameters
  std::uint32_t shards = 0;  ///< among how many workers; each such group holds all of it. 0 = among all

  bool operator==(const ZeroChoice&) const = default;
};

/// How a model is divided among workers, beside the samples: with strategies allreduce and zero. The result does not
/// depend on it, but for the number of tensor lanes.
struct MeshChoice {
  std::uint32_t data = 0;          ///< how many copies of the model there are; 0 = as many as there are workers for
  std::uint32_t pipe = 1;          ///< among how many workers its layers are divided
  std::uint32_t tensor = 1;        ///< among how many each layer is
  std::string pipeline = "1f1b";   ///< the schedule of stages: gpipe, 1f1b, interleaved, zb-h1, zb-v; or one of your
                                   ///< own: the rows of `trireme plan --csv`, with ';' between them
  std::uint32_t chunks = 0;        ///< stages per worker; 0 = as the schedule usually has
  std::string stages = {};         ///< how many layers each stage has, "3,5,4"; empty: cut by their cost
  bool recompute = false;          ///< keep only each layer's input, and compute the rest again for the gradient
  std::uint32_t tensor_lanes = 0;  ///< into how many blocks matrices are cut, whoever computes them; 0 = `tensor`

  /// Whether a worker has less than the whole model, or computes it in blocks.
  bool divides_model() const { return pipe > 1 || tensor > 1 || tensor_lanes > 1; }
  bool operator==(const MeshChoice&) const = default;
};

/// Parses the sizes, "data=2,pipe=2,tensor=1": those that are left out are 0 for data, else 1. Throws InvalidArgument
/// that says what was expected.
MeshChoice parse_mesh(std::string_view text);

/// The inverse: "data=2,pipe=2,tensor=1"; without data where that is 0.
std::string to_string(const MeshChoice& choice);

/// How gradients become one update: the chosen strategy, and so which roles the job needs. train/ implements the
/// strategies.
struct StrategyChoice {
  enum class Kind {
    kParameterServer,  ///< parameters on servers
    kAllReduce,        ///< every worker holds them; gradients are summed among the workers
    kLocalSgd,         ///< every worker takes steps of its own, then parameters are averaged
    kCentral,          ///< parameters in one place: one server, all workers in step
    kZero,             ///< workers divide the optimizer's state, gradients, parameters among themselves
  };

  Kind kind = Kind::kParameterServer;
  LocalSgdChoice local_sgd = {};
  ZeroChoice zero = {};

  bool uses_servers() const { return kind == Kind::kParameterServer || kind == Kind::kCentral; }

  /// Whether a worker holds what no other may have: its loss can mean to go back to a checkpoint.
  bool divides_state() const { return kind == Kind::kZero; }
  bool operator==(const StrategyChoice&) const = default;
};

/// "ps", "allreduce", "local-sgd:16" (more after a comma: see parse_local_sgd), "zero:2", "zero:2,shards=4", "central".
/// Throws InvalidArgument that lists these and suggests one.
StrategyChoice parse_strategy(const std::string& text);
std::string to_string(const StrategyChoice& choice);

/// What happens to a model's buffers (batch-norm statistics) after a step.
enum class BufferPolicy {
  kAverage,    ///< each lane starts from the same values; the new ones are the mean over all lanes
  kBroadcast,  ///< all workers take the chief's
  kOwn,        ///< each worker keeps its own; the chief's are evaluated and saved
};

/// "average", "broadcast", "own". Throws InvalidArgument that lists these and suggests one.
BufferPolicy parse_buffers(const std::string& text);

}  // namespace trireme::cluster

namespace trireme::ps {

/// When a gradient takes effect, and which workers wait for which.
struct Consistency {
  enum class Mode {
    kBsp,  ///< bulk synchronous: one update from all workers' gradients of a step; all go on together
    kSsp,  ///< stale synchronous (Ho et al. 2013): gradients apply at once; no worker is more than `slack` clocks ahead
    kAsp,  ///< asynchronous: gradients apply at once; no worker waits
  };

  Mode mode = Mode::kBsp;
  Step slack = 0;                    ///< ssp: by how many clocks the fastest may lead the slowest
  std::uint32_t backup_workers = 0;  ///< bsp: a step goes on when all but this many have arrived (Chen et al. 2016)
  bool damp_stale = false;           ///< ssp, asp: divides a gradient by its staleness (Zhang et al. 2016)

  bool synchronous() const { return mode == Mode::kBsp; }
  bool operator==(const Consistency&) const = default;
};

/// "bsp", "ssp:4", "asp". Throws InvalidArgument that lists these and suggests one.
Consistency parse_consistency(const std::string& text);
std::string to_string(const Consistency& consistency);

}  // namespace trireme::ps
