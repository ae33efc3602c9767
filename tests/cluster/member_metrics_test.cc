#include "cluster/member_metrics.h"

#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_fails.h"
#include "tests/support/http.h"
#include "tests/support/temp_folder.h"

namespace trireme::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;

const net::Address kAnyPort{.host = "127.0.0.1", .port = 0};

std::uint16_t port_of(const MemberMetrics& metrics) { return net::parse_address(metrics.address()).port; }

Heartbeat beat_of_worker(std::uint64_t samples, double loss) {
  return {.work = {.clock = samples / 10,
                   .samples = samples,
                   .loss_sum = loss * static_cast<double>(samples),
                   .busy_s = 0.5,
                   .lanes = 2,
                   .phases = {0.1, 0.2}},
          .activity = {.what = "forward", .step = 3, .for_s = 0.25},
          .load = {.name = "node7", .cores = 2, .resident = 4096, .cpu_s = 1.5}};
}

TEST(MemberMetrics, OfAWorkerAreTheSumsOfItsHeartbeats) {
  MemberMetrics metrics(kAnyPort, Role::kWorker, 3);
  metrics.add(beat_of_worker(100, 2.0), 5);
  metrics.add(beat_of_worker(50, 1.5), 5);
  metrics.add({.work = {.clock = 15}}, 6);  // nothing was finished meanwhile
  const std::string text = http_ask(port_of(metrics), "GET /metrics", "Accept: application/openmetrics-text\r\n").body;
  EXPECT_THAT(text, HasSubstr("role=\"worker\",slot=\"3\""));
  EXPECT_THAT(text, HasSubstr("\ntrireme_view 6\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_step 15\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_samples_total 150\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_lanes_total 4\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_loss 1.5\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_phase_seconds_total{phase=\"forward\"} 0.4\n"));
  EXPECT_THAT(text, HasSubstr("\nprocess_resident_memory_bytes 4096\n")) << "told now and then, and kept";
  EXPECT_THAT(text, Not(HasSubstr("\nprocess_open_fds 0\n")));
  EXPECT_TRUE(text.ends_with("# EOF\n"));
}

TEST(MemberMetrics, SaysAtWhichAddressOfThisHostItListens) {
  EXPECT_THAT(MemberMetrics(kAnyPort, Role::kWorker, 0).address(), testing::StartsWith("127.0.0.1:"));
  const MemberMetrics metrics(parse_metrics_address("[::1]:0"), Role::kWorker, 0);
  EXPECT_THAT(metrics.address(), testing::StartsWith("[::1]:"));
  EXPECT_GT(net::parse_address(metrics.address()).port, 0);
}

TEST(MemberMetrics, HasWhatTheDocumentsName) {
  MemberMetrics metrics(kAnyPort, Role::kWorker, 0);
  metrics.add(beat_of_worker(10, 1), 1);
  const std::string text = http_ask(port_of(metrics), "GET /metrics").body;
  for (const std::string name :
       {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds",
        "trireme_view", "trireme_master_silent_seconds", "trireme_step", "trireme_samples_total", "trireme_lanes_total",
        "trireme_busy_seconds_total", "trireme_loss", "trireme_phase_seconds_total", "trireme_activity_seconds"}) {
    EXPECT_THAT(text, HasSubstr("\n# TYPE " + name + " "));
  }
}

TEST(MemberMetrics, OfAServerTellOfClocksAndCopies) {
  MemberMetrics metrics(kAnyPort, Role::kServer, 0);
  metrics.add({.clocks = {.clocks = {7, 4, 5}},
               .shards = {.view = 2, .reports = {{.shard = 0, .in_sync = true}, {.shard = 1}, {.shard = 2}}}},
              2);
  const std::string text = http_ask(port_of(metrics), "GET /metrics").body;
  EXPECT_THAT(text, HasSubstr("\ntrireme_clock_spread_steps 3\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_replicas{state=\"in_sync\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_replicas{state=\"filling\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("trireme_samples")));
  EXPECT_THAT(text, Not(HasSubstr("# EOF")));
}

TEST(MemberMetrics, ReadyIsOneThatIsInAView) {
  MemberMetrics metrics(kAnyPort, Role::kWorker, 0);
  EXPECT_EQ(http_ask(port_of(metrics), "GET /healthz").status, 200);
  EXPECT_EQ(http_ask(port_of(metrics), "GET /readyz").status, 503);
  metrics.add({}, 1);
  metrics.note_answer();
  EXPECT_EQ(http_ask(port_of(metrics), "GET /readyz").status, 200);
  EXPECT_EQ(http_ask(port_of(metrics), "GET /").status, 404);
}

TEST(MemberMetrics, ProcessesOfOneHostTakeThePortsThatAreFree) {
  const MemberMetrics first(kAnyPort, Role::kWorker, 0);
  const MemberMetrics second({.host = "127.0.0.1", .port = port_of(first)}, Role::kWorker, 1);
  EXPECT_GT(port_of(second), port_of(first));
}

TEST(MemberMetrics, AreServedToThisMachineOnly) {
  EXPECT_EQ(parse_metrics_address("9100").text(), "127.0.0.1:9100");
  EXPECT_EQ(parse_metrics_address("localhost:9100").port, 9100);
  EXPECT_FAILS(parse_metrics_address("0.0.0.0:9100"), InvalidArgument, "--dash 0.0.0.0:8000");
  EXPECT_THROW(parse_metrics_address("70000"), InvalidArgument);
  EXPECT_THROW(parse_metrics_address("-1"), InvalidArgument);
  EXPECT_THROW(parse_metrics_address("9100x"), InvalidArgument);
}

TEST(MemberMetrics, PromtoolAgrees) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no promtool here";
  const TempFolder folder;
  for (const Role role : {Role::kWorker, Role::kServer}) {
    MemberMetrics metrics(kAnyPort, role, 0);
    metrics.add(beat_of_worker(10, 1), 1);
    const auto file = folder.write("metrics", http_ask(port_of(metrics), "GET /metrics").body);
    EXPECT_EQ(std::system(fmt::format("promtool check metrics < {0} > {0}.said 2>&1", file.string()).c_str()), 0)
        << read_file(file.string() + ".said");
  }
}

}  // namespace
}  // namespace trireme::cluster
