#pragma once

#include "collective/communicator.h"

namespace trireme::collective {

/// This process among the others that mpirun started: made once, before the tests.
Communicator& all_ranks();

/// The ranks come together by MPI's own means, whatever the state of a communicator of ours.
void barrier_without_communicator();

}  // namespace trireme::collective
