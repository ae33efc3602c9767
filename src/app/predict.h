#pragma once

#include "cli/start/trained_run.h"

namespace trireme::app {

/// Evaluates a trained model on samples, together with the other workers of the job; the chief reports the result to
/// the launcher. Throws InvalidArgument, PeerLost, Timeout, IoError, Corrupt.
void evaluate(const cli::ModelUse& use);

/// Writes what a trained model says of this worker's share of the samples, neighbouring ones in the order of ranks, to
/// `part-<rank>` in the folder `use.out`: rows of CSV, or numbers. The chief reports what belongs in front of them.
/// Throws likewise.
void predict(const cli::ModelUse& use);

}  // namespace trireme::app
