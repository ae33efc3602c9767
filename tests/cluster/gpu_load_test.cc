#include "cluster/gpu_load.h"

#include <gtest/gtest.h>

namespace trireme::cluster {
namespace {

TEST(GpuLoad, WithoutADriverThereAreNoGpus) { EXPECT_TRUE(gpu_load("libno-such-driver.so.7").empty()); }

}  // namespace
}  // namespace trireme::cluster
