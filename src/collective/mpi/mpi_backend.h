#pragma once

#include <memory>

#include "trireme/deadline.h"

#include "collective/backend.h"

namespace trireme::collective {

/// The ranks of MPI_COMM_WORLD as an engine: MPI moves the bytes, on a communicator of its own. For clusters whose
/// network only their MPI knows how to use; elsewhere the native engine is faster.
///
///   Communicator ranks(make_mpi_backend());    // in a program started by mpirun or srun
///
/// Begins MPI if nobody has, with MPI_THREAD_SERIALIZED, and then also ends it when the process exits; so call it on
/// the main thread first. A collective call; blocks until all ranks have come. Throws InvalidArgument if the program
/// was not started by mpirun, or if MPI was begun with too low a thread level; Timeout.
///
/// What holds as with the native engine: sums are in lane order and bit for bit the same, because the arithmetic is
/// ours (reduction.h) and MPI only carries its operands; where `any_order` allows it, MPI adds numbers itself. Calls
/// are compared on all ranks before anything is moved. Deadlines: Timeout names the ranks that data is missing from, if
/// the operation got that far.
///
/// What MPI cannot do:
/// - outlive a rank: when one dies, mpirun ends all others (with some MPIs the others only see an error, PeerLost). So
///   there is no naming of dead ranks, and no `reconfigure`.
/// - take back what was begun: after PeerLost or Timeout in the middle of moving data, MPI may still read and write
///   the memory of that operation. Let the process end; MPI is not finalised then, which mpirun reports as an error.
/// - be called from two threads: a program that calls MPI itself does so while no operation is under way here, unless
///   it has begun MPI with MPI_THREAD_MULTIPLE. The same holds for two of these engines in one process.
std::unique_ptr<Backend> make_mpi_backend(Deadline deadline = Deadline::in(30s));

}  // namespace trireme::collective
