#pragma once

#include <span>
#include <string>

#include "cli/flags/train_flags.h"

namespace trireme::app {

/// Trains as the flags say, as one worker of the job that the environment describes. Throws InvalidArgument, PeerLost,
/// Timeout, IoError, Corrupt.
void train(const cli::TrainFlags& flags);

/// Throws InvalidArgument if a model or task that this program has registered does not fit the samples: makes it once.
void check_own(const cli::TrainFlags& flags, const data::Schema& samples);

/// Does what a launcher told a worker of its own: `words` are the flags of a training as JSON, or a verb (eval,
/// predict, generate) and a cli::ModelUse as JSON, or check-device and what --device says. Throws as train does.
void work(std::span<const std::string> words);

}  // namespace trireme::app
