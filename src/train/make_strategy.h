#pragma once

#include <memory>

#include "trireme/trainer.h"

#include "base/spans.h"
#include "job/job_session.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// Returns the strategy that `options.strategy` names, for `model` on this worker of the job. `options.lanes` is known.
/// Connects to whoever the strategy talks to: all workers call it. Checkpoints are wanted every so many steps (0 =
/// none). `spans` may be null. Throws InvalidArgument if the job cannot carry it out (it has no servers) or the model
/// cannot be trained so, PeerLost, Timeout.
std::unique_ptr<Strategy> make_strategy(JobSession& job, const Model& model, const TrainOptions& options,
                                        Step checkpoint_every, SpanRecorder* spans);

}  // namespace trireme
