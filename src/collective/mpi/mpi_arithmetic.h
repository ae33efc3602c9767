#pragma once

#include <mpi.h>

#include <optional>

#include "collective/reduction.h"

namespace trireme::collective {

/// MPI's names of an element type and of an operation on it.
struct MpiArithmetic {
  MPI_Datatype type;
  MPI_Op op;
};

/// Returns nullopt unless MPI's own arithmetic gives the same results as ours, apart from the order. An average is a
/// sum that the caller divides.
std::optional<MpiArithmetic> arithmetic_in_mpi(DType dtype, ReduceOp op);

}  // namespace trireme::collective
