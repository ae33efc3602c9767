#pragma once

#include "cluster/protocol.h"
#include "observe/progress.h"

namespace trireme::launch {

/// Returns what the progress line shows of a job: of a loop of unknown length its steps and what it reports. Pure.
observe::Progress describe(const cluster::JobStatus& status);

}  // namespace trireme::launch
