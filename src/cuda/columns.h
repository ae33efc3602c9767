#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"
#include "cuda/type.h"

namespace trireme::cuda {

/// A matrix of rows × columns, the columns a multiple of 8, with what is computed over it column by column.
struct ColumnSums {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Type type = Type::kFloat;
  const void* values = nullptr;
  float* sums = nullptr;       ///< columns
  float* workspace = nullptr;  ///< column_workspace(columns) floats
};

std::size_t column_workspace(std::int64_t columns);

/// Sums each column, in an order that depends on the shape alone: the gradient of a bias. Throws IoError.
void column_sums(const ColumnSums& sums, Stream stream);

/// The same of values × the derivative of GELU (in the form with tanh) at `before`, which are written to `result`: the
/// gradient before the activation, and that of its bias, in one pass. `result` may be `values`.
void gelu_backward(const ColumnSums& sums, const void* before, void* result, Stream stream);

}  // namespace trireme::cuda
