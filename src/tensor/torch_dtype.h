#pragma once

#include <optional>

#include <torch/types.h>

#include "trireme/types.h"

namespace trireme {

/// A tensor's element type as everything below LibTorch knows it; nothing for types that only LibTorch knows (complex,
/// quantised).
std::optional<DType> dtype_of(torch::ScalarType type);

/// The inverse.
torch::ScalarType scalar_type_of(DType dtype);

}  // namespace trireme
