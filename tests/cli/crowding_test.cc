#include "cli/start/crowding.h"

#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

TEST(Crowding, IsMoreThreadsThanCores) {
  EXPECT_EQ(describe_crowding(4, 2, 4), "4 workers with 2 threads each share 4 cores: this is slow; --threads 1 fits");
  EXPECT_EQ(describe_crowding(1, 8, 1), "1 worker with 8 threads each share 1 core: this is slow; --threads 1 fits");
  EXPECT_EQ(describe_crowding(2, 3, 4), "2 workers with 3 threads each share 4 cores: this is slow; --threads 2 fits");
}

TEST(Crowding, WhatFitsOrIsNotSaidIsNone) {
  EXPECT_EQ(describe_crowding(2, 2, 4), "");
  EXPECT_EQ(describe_crowding(8, 1, 4), "") << "a worker has one thread at least";
  EXPECT_EQ(describe_crowding(8, 0, 4), "") << "we choose";
}

}  // namespace
}  // namespace trireme::cli
