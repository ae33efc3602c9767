#include "trireme/train/torch_dtype.h"

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

}  // namespace trireme
