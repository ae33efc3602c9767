#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "cluster/local_sgd_choice.h"

namespace trireme::cluster {

/// How gradients become one update: which strategy is meant, and so who has to take part. train/ has the strategies.
struct StrategyChoice {
  enum class Kind {
    kParameterServer,  ///< parameters on servers
    kAllReduce,        ///< every worker holds them; gradients are summed among the workers
    kLocalSgd,         ///< every worker takes steps of its own, then parameters are averaged
    kCentral,          ///< parameters in one place: one server, all workers in step
  };

  Kind kind = Kind::kParameterServer;
  LocalSgdChoice local_sgd;

  bool uses_servers() const { return kind == Kind::kParameterServer || kind == Kind::kCentral; }
  bool operator==(const StrategyChoice&) const = default;
};

/// "ps", "allreduce", "local-sgd:16" (more after a comma: see parse_local_sgd), "central". Throws InvalidArgument that
/// says which of these was meant.
StrategyChoice parse_strategy(const std::string& text);
std::string to_string(const StrategyChoice& choice);

/// The strategy with its consistency where it has one, for people: "ps:ssp:4", "allreduce".
std::string describe(const StrategyChoice& choice, const std::string& consistency);

/// Throws InvalidArgument, which says what to do, if the strategy does not work with that many servers.
void check_servers(const StrategyChoice& choice, std::uint32_t servers);

/// What becomes of a model's buffers (batch-norm statistics) after a step of workers that hold the parameters
/// themselves.
enum class BufferPolicy {
  kAverage,    ///< each lane starts from the same ones; the new ones are the mean over lanes, whoever computed them
  kBroadcast,  ///< everybody takes the chief's
  kOwn,        ///< each worker keeps its own; the chief's are evaluated and saved
};

/// "average", "broadcast", "own". Throws InvalidArgument that says which of these was meant.
BufferPolicy parse_buffers(const std::string& text);

}  // namespace trireme::cluster
