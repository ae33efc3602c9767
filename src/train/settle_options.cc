#include "train/settle_options.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/strategy_choice.h"
#include "optim/update_config.h"
#include "ps/consistency.h"

namespace trireme {
namespace {

using StrategyKind = cluster::StrategyChoice::Kind;

void settle_lanes(TrainOptions& options, std::uint32_t workers) {
  const std::uint32_t data = cluster::data_workers(options.mesh, workers);
  if (options.mesh.divides_model()) options.mesh.data = data;
  if (options.lanes == 0) options.lanes = cluster::usual_lanes(options.mesh, workers, options.batch);
  if (options.lanes >= data) return;
  fail<InvalidArgument>("{} lanes for {} workers: each worker needs at least one lane", options.lanes, data);
}

void settle_optimizer(TrainOptions& options) {
  if (!(options.lr > 0)) fail<InvalidArgument>("a learning rate of {} does not learn: it must be above 0", options.lr);
  options.optimizer.prunes = options.prune.sparsity > 0;
  if (options.optimizer.prunes) optim::validate(options.prune);
  optim::validate(options.optimizer);
  if (!(options.clip_norm >= 0)) fail<InvalidArgument>("clip_norm is {}: at least 0, which is off", options.clip_norm);
  if (options.clip_norm > 0 && options.consistency.backup_workers > 0) {
    fail<InvalidArgument>(
        "clip_norm with backup workers: which of them are late differs between servers, so a step has no one gradient "
        "to clip; use clip_value, or no backup workers");
  }
}

/// fp16 needs a scale; a scale that adapts needs one gradient per step, whole.
void settle_loss_scale(TrainOptions& options) {
  if (options.precision == Precision::kFp16) {
    if (options.device.is_cpu()) {
      fail<InvalidArgument>(
          "precision fp16 on a CPU: LibTorch has no products of fp16 matrices there; use bf16, or a GPU");
    }
    if (options.loss_scale == optim::LossScaleOptions{}) options.loss_scale = optim::parse_loss_scale("dynamic");
  }
  optim::validate(options.loss_scale);
  if (!options.loss_scale.dynamic) return;
  if (options.consistency.backup_workers > 0 || options.codec.kind != codec::Kind::kNone) {
    fail<InvalidArgument>(
        "a loss scale that adapts leaves out steps whose gradient is not finite: with backup workers a step has no one "
        "gradient, and a codec cannot encode such a one; use a fixed scale, or neither of them");
  }
}

void check_mesh(const TrainOptions& options) {
  if (!options.mesh.divides_model()) return;
  if (options.strategy.kind != StrategyKind::kAllReduce && options.strategy.kind != StrategyKind::kZero) {
    fail<InvalidArgument>("a mesh that divides the model needs strategy allreduce or zero, not {}",
                          cluster::to_string(options.strategy));
  }
  if (options.strategy.kind == StrategyKind::kZero && options.strategy.zero.stage == 3) {
    fail<InvalidArgument>("zero:3 and a mesh that divides the model are not possible together: use zero:2");
  }
  if (options.mesh.tensor > 1 && options.optimizer.prunes) {
    fail<InvalidArgument>(
        "pruning and tensor={}: which parameters of a matrix are the smallest nobody can see who has a slice of it; "
        "use tensor=1, or do not prune",
        options.mesh.tensor);
  }
  if (!options.init.empty()) {
    fail<InvalidArgument>(
        "init and a mesh that divides the model: nobody has all of it to load that into; train a step from it without "
        "the mesh, and continue that run with it");
  }
  if (options.mesh.pipe > 1 && options.loss_scale != optim::LossScaleOptions{}) {
    fail<InvalidArgument>("stages of a pipeline do not scale losses: leave the loss scale out, or use fp32 or bf16");
  }
}

/// What looks at the parameters while nobody has all of them.
void check_readers(const TrainOptions& options) {
  const bool divided = options.mesh.divides_model();
  if (!divided && (options.strategy.kind != StrategyKind::kZero || options.strategy.zero.stage < 3)) return;
  const char* const by = divided ? "a mesh that divides the model" : "zero:3";
  if (options.histograms_every > 0) {
    fail<InvalidArgument>(
        "histograms and {}: no worker has all parameters while it trains; leave the histograms out, or use allreduce "
        "or zero:2 without such a mesh",
        by);
  }
  if (std::ranges::any_of(options.callbacks, &Callback::reads_model)) {
    fail<InvalidArgument>(
        "a callback that reads the model while it trains (save_best) and {}: no worker has all parameters then; leave "
        "it out, or use allreduce or zero:2 without such a mesh",
        by);
  }
}

}  // namespace

void settle_options(TrainOptions& options, std::uint32_t workers) {
  settle_lanes(options, workers);
  if (options.accumulate == 0) fail<InvalidArgument>("accumulate is 0: a lane has at least one part");
  if (!options.init_prefix.empty() && options.init.empty()) {
    fail<InvalidArgument>("init_prefix '{}' without init: of which file?", options.init_prefix);
  }
  settle_optimizer(options);
  settle_loss_scale(options);
  check_mesh(options);
  check_readers(options);
  ps::validate(options.consistency, workers);
  if (options.strategy.kind != StrategyKind::kParameterServer && options.consistency != ps::Consistency{}) {
    fail<InvalidArgument>("consistency {} is a matter of strategy ps: {} has its own",
                          ps::to_string(options.consistency), cluster::to_string(options.strategy));
  }
}

}  // namespace trireme
