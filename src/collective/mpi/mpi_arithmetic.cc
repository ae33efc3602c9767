#include "collective/mpi/mpi_arithmetic.h"

namespace trireme::collective {
namespace {

std::optional<MPI_Datatype> type_in_mpi(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return MPI_FLOAT;
    case DType::kF64:
      return MPI_DOUBLE;
    case DType::kI8:
      return MPI_INT8_T;
    case DType::kU8:
      return MPI_UINT8_T;
    case DType::kI16:
      return MPI_INT16_T;
    case DType::kI32:
      return MPI_INT32_T;
    case DType::kI64:
      return MPI_INT64_T;
    default:
      return {};  // MPI has no 16-bit floats
  }
}

}  // namespace

std::optional<MpiArithmetic> arithmetic_in_mpi(DType dtype, ReduceOp op) {
  const auto type = type_in_mpi(dtype);
  if (!type) return {};
  const bool floating = dtype == DType::kF32 || dtype == DType::kF64;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return MpiArithmetic{*type, MPI_SUM};
    case ReduceOp::kProduct:
      return MpiArithmetic{*type, MPI_PROD};
    case ReduceOp::kMin:
      if (floating) return {};  // MPI does not specify the result for NaN
      return MpiArithmetic{*type, MPI_MIN};
    case ReduceOp::kMax:
      if (floating) return {};
      return MpiArithmetic{*type, MPI_MAX};
  }
  return {};
}

}  // namespace trireme::collective
