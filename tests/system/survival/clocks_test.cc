// Processes whose clocks differ by more than an hour, as those of two machines do: what they did stands in the right
// order all the same.

#include <gtest/gtest.h>

#include "dash/aligned_timeline.h"
#include "launch/job/running_job.h"
#include "tests/system/placed_job.h"

namespace trireme::system_test {
namespace {

constexpr std::int64_t kAhead = 5000;  // seconds
const Site kOtherClock{
    .enter_with = {"/usr/bin/unshare", "-T", "--monotonic", std::to_string(kAhead), "--fork", "--kill-child"}};

bool time_namespaces_work() { return std::system("unshare -T --monotonic 1 --fork true 2>/dev/null") == 0; }

TEST(Clocks, MessagesBetweenProcessesAreShownInTheirOrder) {
  if (!time_namespaces_work()) GTEST_SKIP() << "time namespaces are not permitted here";
  PlacedJob job({.workers = 2});
  const auto master = job.start_master({});
  job.start_worker(0);
  job.start_worker(1, kOtherClock);
  ASSERT_TRUE(job.advances(20));
  launch::RunningJob running(job.announced(), job.secret());
  const std::uint64_t request = running.record(5);
  cluster::CollectedSpans spans;
  ASSERT_TRUE(eventually([&] {
    spans = running.recorded(request);
    return spans.known && spans.missing.empty();
  }));
  const dash::AlignedTimeline timeline(spans);
  ASSERT_EQ(timeline.collected().reports.size(), 2u);
  const auto& [offsets, errors, contradiction] = timeline.alignment();
  EXPECT_FALSE(contradiction);
  EXPECT_EQ(offsets[0], 0) << "its clock is the master's";
  EXPECT_EQ(errors[0], 0);
  EXPECT_NEAR(static_cast<double>(offsets[1]) * 1e-9, -static_cast<double>(kAhead), 5);
  EXPECT_GT(errors[1], 0) << "that clock is known by messages only";
  EXPECT_LE(std::abs(offsets[1] + kAhead * 1'000'000'000), errors[1]) << "and the error is a bound";
  const auto orders = dash::message_orders(timeline.collected().reports, spans.strategy);
  EXPECT_GE(orders.size(), 4u) << "all-reduces of a few steps, both ways";
  for (const dash::MessageOrder& order : orders) {
    EXPECT_LE(order.before + offsets[order.first], order.after + offsets[order.second]);
  }
  RecordProperty("clock_error_us", std::to_string(static_cast<double>(errors[1]) / 1000));
  ask_to_stop(job.announced(), job.secret());
}

}  // namespace
}  // namespace trireme::system_test
