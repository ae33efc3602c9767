#include "cli/plan/quantities.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::cli {
namespace {

TEST(Quantities, HaveAUnit) {
  EXPECT_EQ(parse_bytes("--memory", "24gb"), 24e9);
  EXPECT_EQ(parse_bytes("--memory", "1.5GiB"), 1.5 * (1u << 30));
  EXPECT_EQ(parse_bandwidth("--bandwidth", "100gbit"), 12.5e9);
  EXPECT_EQ(parse_bandwidth("--bandwidth", "12.5gb"), 12.5e9);
  EXPECT_DOUBLE_EQ(parse_seconds("--latency", "20us"), 20e-6);
  EXPECT_EQ(parse_seconds("--restart-time", "2min"), 120);
  EXPECT_EQ(parse_flops("--flops", "100TFLOPS"), 1e14);
}

TEST(Quantities, ThatAreWrongAreRefusedWithAnExample) {
  for (const char* text : {"", "24", "gb", "-1gb", "0gb", "nangb", "infgb", "24gbit", "24 gb", "1e999gb", "24g b"}) {
    EXPECT_FAILS(parse_bytes("--memory", text), InvalidArgument, "--memory", "24gb", "kib");
  }
  EXPECT_FAILS(parse_bandwidth("--bandwidth", "100gbits"), InvalidArgument, "--bandwidth 100gbits", "100gbit");
  EXPECT_FAILS(parse_seconds("--latency", "20"), InvalidArgument, "--latency 20", "20us");
  EXPECT_FAILS(parse_flops("--flops", "100t"), InvalidArgument, "--flops 100t", "100tflops");
}

TEST(Quantities, ShapesAndListsAreReadWhole) {
  EXPECT_EQ(parse_shape("--image", "3x224x224"), (std::vector<std::uint64_t>{3, 224, 224}));
  for (const char* text : {"", "3x", "3x0x1", "3,2", "-1x2", "3x99999999999999999999"}) {
    EXPECT_FAILS(parse_shape("--image", text), InvalidArgument, "--image", "3x224x224");
  }
  EXPECT_EQ(parse_list("--times", "1:2:0.5", 3, "three"), (std::vector<double>{1, 2, 0.5}));
  for (const char* text : {"", "1:2", "1:2:3:4", "1:-2:3", "a:b:c", "1:2:nan", "1:2:inf"}) {
    EXPECT_FAILS(parse_list("--times", text, 3, "three numbers"), InvalidArgument, "--times", "three numbers");
  }
}

}  // namespace
}  // namespace trireme::cli
