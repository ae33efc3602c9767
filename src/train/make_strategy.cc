#include "train/make_strategy.h"

#include "base/error.h"
#include "train/sharded/sharded.h"
#include "train/strategy/all_reduce.h"
#include "train/strategy/local_sgd.h"
#include "train/strategy/parameter_server.h"

namespace trireme {
namespace {

ParameterUpdates updates_of(const TrainOptions& options) {
  return {.config = options.optimizer,
          .groups = options.groups,
          .clip_norm = options.clip_norm,
          .prune = options.prune,
          .loss_scale = options.loss_scale};
}

std::unique_ptr<Strategy> make_parameter_server(JobSession& job, const Model& model, const TrainOptions& options,
                                                const ps::Consistency& consistency, Step checkpoint_every,
                                                SpanRecorder* spans) {
  return std::make_unique<ParameterServer>(job, model,
                                           ParameterServerOptions{.updates = updates_of(options),
                                                                  .consistency = consistency,
                                                                  .lanes = options.lanes,
                                                                  .buffers = options.buffers,
                                                                  .codec = options.codec,
                                                                  .checkpoint_every = checkpoint_every,
                                                                  .spans = spans});
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(JobSession& job, const Model& model, const TrainOptions& options,
                                        Step checkpoint_every, SpanRecorder* spans) {
  using Kind = cluster::StrategyChoice::Kind;
  cluster::check_servers(options.strategy, static_cast<std::uint32_t>(job.view().servers.size()));
  switch (options.strategy.kind) {
    case Kind::kParameterServer:
      return make_parameter_server(job, model, options, options.consistency, checkpoint_every, spans);
    case Kind::kCentral:  // parameters in one place, one update for all: a single server in bsp is just that
      return make_parameter_server(job, model, options, {.mode = ps::Consistency::Mode::kBsp}, checkpoint_every, spans);
    case Kind::kAllReduce:
      if (options.mesh.divides_model()) return std::make_unique<Sharded>(job, model, options, spans);
      return std::make_unique<AllReduce>(job, model,
                                         AllReduceOptions{.updates = updates_of(options),
                                                          .lanes = options.lanes,
                                                          .buffers = options.buffers,
                                                          .codec = options.codec,
                                                          .spans = spans});
    case Kind::kLocalSgd:
      return std::make_unique<LocalSgd>(job.ranks(), model,
                                        LocalSgdOptions{.updates = updates_of(options),
                                                        .choice = options.strategy.local_sgd,
                                                        .buffers = options.buffers,
                                                        .spans = spans});
    case Kind::kZero:
      return std::make_unique<Sharded>(job, model, options, spans);
  }
  TRIREME_CHECK(false, "no strategy");
}

}  // namespace trireme
