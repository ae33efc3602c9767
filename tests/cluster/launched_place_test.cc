#include "cluster/launched_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::cluster {
namespace {

LaunchedPlace first_of_two() {
  LaunchedPlace place;
  place.plan = {.workers = 2, .own_workers = {0}, .leads = true};
  place.hosts_master = true;
  return place;
}

TEST(LaunchedPlace, AProgramOfOnesOwnServesItsMetricsWhereItWasAsked) {
  EXPECT_EQ(to_environment(first_of_two(), {{"TRIREME_METRICS", "9100"}}).metrics, "9100");
  EXPECT_EQ(to_environment(first_of_two(), {}).metrics, "");
  EXPECT_FAILS(to_environment(first_of_two(), {{"TRIREME_METRICS", "10.0.0.1:9100"}}), InvalidArgument,
               "TRIREME_METRICS");
}

}  // namespace
}  // namespace trireme::cluster
