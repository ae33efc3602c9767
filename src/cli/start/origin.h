#pragma once

#include <cstdint>
#include <optional>

#include "trireme/types.h"

#include "observe/run_folder.h"

namespace trireme::cli {

// What a run that continues continues from: the newest sound checkpoint in its folder.

/// Returns the step of the newest complete checkpoint; nullopt if there is none.
std::optional<Step> newest_step(const observe::RunFolder& folder);

/// Throws InvalidArgument if the checkpoints were made with another number of samples than the data has now.
void check_samples(const observe::RunFolder& folder, std::uint64_t samples);

/// Makes the checkpoint of step `from` the newest one of the run: later ones would be continued instead. Throws
/// InvalidArgument if there is none, or it is damaged.
void go_back_to(Step from, const observe::RunFolder& folder);

/// Says what the run continues from, where that is not what one would expect. The chief makes the same choice.
void tell_origin(const observe::RunFolder& folder);

}  // namespace trireme::cli
