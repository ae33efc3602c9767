#pragma once

#include <mpi.h>

#include <optional>

#include "collective/reduction.h"

namespace trireme::collective {

/// How MPI calls a type of element and a way to combine them.
struct MpiArithmetic {
  MPI_Datatype type;
  MPI_Op op;
};

/// Nothing unless MPI's own arithmetic gives what ours would give, but for the order. An average is a sum, to be
/// divided.
std::optional<MpiArithmetic> arithmetic_in_mpi(DType dtype, ReduceOp op);

}  // namespace trireme::collective
