#include "trireme/base/dtype.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(DType, NamesAndSizesAreThoseOfSafetensors) {
  const struct {
    DType dtype;
    std::string_view name;
    std::size_t size;
  } cases[] = {{DType::kF32, "F32", 4}, {DType::kF64, "F64", 8},  {DType::kF16, "F16", 2}, {DType::kBF16, "BF16", 2},
               {DType::kI8, "I8", 1},   {DType::kU8, "U8", 1},    {DType::kI16, "I16", 2}, {DType::kI32, "I32", 4},
               {DType::kI64, "I64", 8}, {DType::kBool, "BOOL", 1}};
  for (const auto& [dtype, name, size] : cases) {
    EXPECT_EQ(name_of(dtype), name);
    EXPECT_EQ(size_of(dtype), size);
    EXPECT_EQ(dtype_from_name(name), dtype);
  }
}

TEST(DType, OtherNamesAreNothing) {
  for (const std::string_view name : {"", "f32", "F32 ", "U64", "float"}) EXPECT_FALSE(dtype_from_name(name)) << name;
}

}  // namespace
}  // namespace trireme
