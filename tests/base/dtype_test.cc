#include <array>

#include <gtest/gtest.h>

#include "trireme/types.h"

namespace trireme {
namespace {

TEST(DType, NamesRoundTripAndSizesAreKnown) {
  constexpr std::array kAll = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                               DType::kU8,  DType::kI16, DType::kI32, DType::kI64,  DType::kBool};
  std::size_t bytes = 0;
  for (const DType dtype : kAll) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
    bytes += size_of(dtype);
  }
  EXPECT_EQ(bytes, 4u + 8 + 2 + 2 + 1 + 1 + 2 + 4 + 8 + 1);
  EXPECT_EQ(name_of(DType::kBF16), "BF16");
}

TEST(DType, UnknownNameIsNullopt) {
  EXPECT_EQ(dtype_from_name("f32"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

}  // namespace
}  // namespace trireme
