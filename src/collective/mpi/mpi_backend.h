#pragma once

#include <memory>

#include "trireme/deadline.h"

#include "collective/backend.h"

namespace trireme::collective {

/// An engine on the ranks of MPI_COMM_WORLD: MPI moves the bytes, on a communicator of its own. For clusters whose
/// network only their MPI can use; elsewhere the native engine is faster.
///
///   Communicator ranks(make_mpi_backend());    // in a program started by mpirun or srun
///
/// Initialises MPI if that was not done yet, with MPI_THREAD_SERIALIZED, and then also finalises it when the process
/// exits; so call it on the main thread first. A collective call; blocks until all ranks have called it. Throws
/// InvalidArgument if the program was not started by mpirun, or if MPI was initialised with too low a thread level;
/// Timeout.
///
/// Same as with the native engine: sums are in lane order and bit-identical, because the arithmetic is ours
/// (reduction.h) and MPI only carries its operands; where `any_order` allows it, MPI adds numbers itself. Calls are
/// compared on all ranks before any data moves. Deadlines: Timeout names the ranks whose data is missing, if the
/// operation got that far.
///
/// What MPI cannot do:
/// - survive the loss of a rank: when one dies, mpirun ends all others (with some MPIs the others only see an error,
///   PeerLost). So dead ranks are not named, and there is no `reconfigure`.
/// - cancel what was started: after PeerLost or Timeout while data moves, MPI may still read and write the memory of
///   that operation. Let the process end; MPI is not finalised then, which mpirun reports as an error.
/// - be called from two threads: a program that calls MPI itself does so while no operation is in progress here, unless
///   it has initialised MPI with MPI_THREAD_MULTIPLE. The same holds for two of these engines in one process.
std::unique_ptr<Backend> make_mpi_backend(Deadline deadline = Deadline::in(30s));

}  // namespace trireme::collective
