#include "tensor/torch_dtype.h"

#include "base/error.h"

namespace trireme {

std::optional<DType> dtype_of(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return DType::kF32;
    case torch::kFloat64:
      return DType::kF64;
    case torch::kFloat16:
      return DType::kF16;
    case torch::kBFloat16:
      return DType::kBF16;
    case torch::kInt8:
      return DType::kI8;
    case torch::kUInt8:
      return DType::kU8;
    case torch::kInt16:
      return DType::kI16;
    case torch::kInt32:
      return DType::kI32;
    case torch::kInt64:
      return DType::kI64;
    case torch::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

torch::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return torch::kFloat32;
    case DType::kF64:
      return torch::kFloat64;
    case DType::kF16:
      return torch::kFloat16;
    case DType::kBF16:
      return torch::kBFloat16;
    case DType::kI8:
      return torch::kInt8;
    case DType::kU8:
      return torch::kUInt8;
    case DType::kI16:
      return torch::kInt16;
    case DType::kI32:
      return torch::kInt32;
    case DType::kI64:
      return torch::kInt64;
    case DType::kBool:
      return torch::kBool;
  }
  TRIREME_CHECK(false, "unknown type {}", static_cast<int>(dtype));
  return {};
}

}  // namespace trireme
