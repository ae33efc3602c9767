#pragma once

namespace trireme {

/// Makes MPI available to this program as the engine of collectives. Call it before Job::join or dist::init; link
/// Trireme::mpi.
///
///   trireme::use_mpi();
///   const auto job = trireme::Job::join();     // mpirun -np 4 -x TRIREME_BACKEND=mpi ./program
///
/// It is used where TRIREME_BACKEND=mpi says so, or `--backend mpi` of `trireme train` and of programs with train_main.
/// Sums are the same, bit for bit, as those of the native engine; but MPI cannot go on without a rank: when one dies,
/// all end.
void use_mpi();

}  // namespace trireme
