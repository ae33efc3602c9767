// What is made of what the master says: who hangs, /metrics, one screen of a terminal, events for hooks.

#include <cmath>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mutex.h"
#include "dash/event_hooks.h"
#include "dash/hang.h"
#include "dash/open_metrics.h"
#include "dash/top_screen.h"
#include "net/http/server.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace trireme::dash {
namespace {

using cluster::JobPhase;
using cluster::JobStatus;
using testing::HasSubstr;
using testing::Not;

JobStatus running(std::uint32_t workers) {
  JobStatus status;
  status.state = JobPhase::kRunning;
  status.reason = "view 1: all are here";
  status.view = 1;
  status.plan = {.steps = 100, .batch = 64, .lanes = 4};
  status.now.step = 40;
  status.now.loss = 0.5;
  status.now.samples_per_s = 1000;
  status.now.metrics = {{"accuracy", 0.8}};
  status.wanted_workers = workers;
  for (std::uint32_t slot = 0; slot < workers; ++slot) {
    cluster::MemberStatus worker;
    worker.slot = slot;
    worker.pid = 100 + slot;
    worker.host = "127.0.0.1";
    worker.clock = 40;
    worker.phases = {0.1, 1, 2, 0.5, 0.2, 0.3, 0};
    worker.activity = {.what = "forward", .step = 40, .for_s = 0.01};
    status.workers.push_back(worker);
  }
  status.counters.step_s = {.bounds = {0.1, 1}, .counts = {30, 10, 0}, .sum = 6};
  status.counters.recovery_s.bounds = {1, 10};
  return status;
}

// ---- Who hangs.

TEST(Hang, NobodyDoes) { EXPECT_FALSE(judge_hang(running(3)).hangs); }

TEST(Hang, TheSilentOneIsNamed) {
  JobStatus status = running(3);
  for (auto& worker : status.workers) worker.activity = {.what = "wait", .step = 40, .for_s = 2.5};
  status.workers[1].silent_s = 2.5;
  status.workers[1].activity.what = "backward";
  const HangReport report = judge_hang(status);
  EXPECT_TRUE(report.hangs);
  ASSERT_EQ(report.culprits.size(), 1u);
  EXPECT_EQ(report.culprits[0].who, "worker 1");
  EXPECT_THAT(report.culprits[0].what, HasSubstr("not heard of for 2.5 s (pid 101"));
  EXPECT_THAT(report.culprits[0].what, HasSubstr("backward of step 40"));
  EXPECT_EQ(report.waiting.size(), 2u);
  EXPECT_EQ(report.summary, "2 workers wait for worker 1");
}

TEST(Hang, TheSlowOneIsNamed) {
  JobStatus status = running(2);
  status.workers[0].activity = {.what = "wait", .step = 40, .for_s = 3};
  status.workers[1].activity = {.what = "forward", .step = 40, .for_s = 3};
  const HangReport report = judge_hang(status);
  ASSERT_EQ(report.culprits.size(), 1u);
  EXPECT_EQ(report.culprits[0].who, "worker 1");
  EXPECT_THAT(report.culprits[0].what, HasSubstr("forward of step 40"));
}

TEST(Hang, TheOperationAndWhoItLacksAreNamed) {
  JobStatus status = running(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) status.workers[rank].slot = rank + 4;
  for (const std::size_t rank : {0, 2}) {
    status.workers[rank].activity = {.what = "wait", .step = 40, .for_s = 3, .operation = "all_reduce", .workers = {1}};
  }
  EXPECT_THAT(judge_hang(status).waiting.at(1),
              HasSubstr("worker 6: wait of step 40, for 3.0 s: all_reduce, which lacks worker 5"));
  EXPECT_EQ(judge_hang(status).culprits.at(0).who, "worker 5") << "it does something else";

  // Each waits in another operation, or the one that lacks nobody is a server.
  status.servers.resize(2);
  status.servers[1].slot = 7;
  status.workers[1].activity = {.what = "wait", .step = 40, .for_s = 3, .operation = "a pull", .servers = {1}};
  const HangReport report = judge_hang(status);
  ASSERT_EQ(report.culprits.size(), 2u);
  EXPECT_EQ(report.culprits[0].who, "server 7");
  EXPECT_EQ(report.culprits[1].who, "worker 5");
  EXPECT_EQ(report.summary, "3 workers wait for server 7, worker 5");
}

TEST(Hang, AServer) {
  JobStatus status = running(1);
  status.servers.resize(1);
  status.servers[0].silent_s = 4;
  EXPECT_EQ(judge_hang(status).culprits.at(0).who, "server 0");
  status.servers.clear();
  status.workers[0].activity = {.what = "wait", .step = 40, .for_s = 9};
  EXPECT_THAT(judge_hang(status).summary, HasSubstr("all workers wait"));
}

TEST(Hang, AJobThatHasEndedDoesNot) {
  JobStatus status = running(1);
  status.workers[0].silent_s = 10;
  status.state = JobPhase::kFinished;
  EXPECT_FALSE(judge_hang(status).hangs);
}

// ---- /metrics.

TEST(OpenMetrics, HasWhatPrometheusAsks) {
  JobStatus status = running(2);
  status.counters.steps = 40;
  status.counters.failures = {{"worker died", 2}, {"server hangs", 1}};
  const std::string text =
      to_open_metrics({.status = status, .checkpoint_age_s = 12.5, .goodput = 0.99, .version = "1.2"}, true);
  EXPECT_THAT(text, HasSubstr("# TYPE trireme_steps counter\n"));
  EXPECT_THAT(text, HasSubstr("\ntrireme_steps_total 40\n"));
  EXPECT_THAT(text, HasSubstr("trireme_samples_total 0\n"));
  EXPECT_THAT(text, HasSubstr("# UNIT trireme_step_duration_seconds seconds\n"));
  EXPECT_THAT(text, HasSubstr("trireme_step_duration_seconds_bucket{le=\"1\"} 40\n"));
  EXPECT_THAT(text, HasSubstr("trireme_step_duration_seconds_bucket{le=\"+Inf\"} 40\n"));
  EXPECT_THAT(text, HasSubstr("trireme_phase_seconds_total{phase=\"backward\",rank=\"1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("trireme_failures_total{kind=\"died\",role=\"worker\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("trireme_members{role=\"worker\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("trireme_checkpoint_age_seconds 12.5\n"));
  EXPECT_THAT(text, HasSubstr("trireme_build_info{version=\"1.2\"} 1\n"));
  EXPECT_TRUE(text.ends_with("# EOF\n"));
}

TEST(OpenMetrics, TheOlderFormatNamesSamples) {
  const std::string text = to_open_metrics({.status = running(1)}, false);
  EXPECT_THAT(text, HasSubstr("# TYPE trireme_steps_total counter\n"));
  EXPECT_THAT(text, Not(HasSubstr("# EOF")));
  EXPECT_THAT(text, Not(HasSubstr("# UNIT")));
}

TEST(OpenMetrics, HostileNamesAreEscaped) {
  JobStatus status = running(1);
  status.now.metrics = {{"a\"b\\c\nd", std::nan("")}};
  EXPECT_THAT(to_open_metrics({.status = status}, true), HasSubstr(R"(trireme_metric{name="a\"b\\c\nd"} NaN)"));
}

TEST(OpenMetrics, RanksAreLabelsUpToAThousand) {
  EXPECT_THAT(to_open_metrics({.status = running(1001)}, true), Not(HasSubstr("rank=")));
  EXPECT_THAT(to_open_metrics({.status = running(1001)}, true), HasSubstr("phase=\"forward\"} 1001\n"));
}

TEST(OpenMetrics, TargetsAreTheProcessesThatServeTheirOwn) {
  JobStatus status = running(2);
  EXPECT_EQ(to_targets(status, "node7"), "[]\n");
  status.workers[1].load = {.name = "node7", .metrics = "127.0.0.1:9101"};
  status.servers = {{.slot = 4, .load = {.name = "node7", .metrics = "127.0.0.1:9100"}},
                    {.slot = 5, .load = {.name = "node8", .metrics = "127.0.0.1:9100"}}};
  EXPECT_EQ(to_targets(status, "node7"),
            R"([{"labels":{"host":"node7","role":"worker","slot":"1"},"targets":["127.0.0.1:9101"]},)"
            R"({"labels":{"host":"node7","role":"server","slot":"4"},"targets":["127.0.0.1:9100"]}])"
            "\n");
  EXPECT_EQ(to_targets(status, "node9"), "[]\n") << "127.0.0.1 is another machine there";
}

TEST(OpenMetrics, PromtoolAgrees) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no promtool here";
  JobStatus status = running(2);
  status.counters.failures = {{"worker died", 2}};
  status.stragglers = {{.slot = 1, .factor = 2}};
  const TempFolder folder;
  const auto file =
      folder.write("metrics", to_open_metrics({.status = status, .checkpoint_age_s = 1, .goodput = 1}, false));
  EXPECT_EQ(
      std::system(
          fmt::format("promtool check metrics < {} > {}/said 2>&1", file.string(), folder.path().string()).c_str()),
      0)
      << read_file(folder / "said");
  const std::string docs = TRIREME_SOURCE_DIR "/docs";
  EXPECT_EQ(std::system(
                fmt::format("promtool check rules {}/alerts.yml > {}/said 2>&1", docs, folder.path().string()).c_str()),
            0)
      << read_file(folder / "said");
}

TEST(OpenMetrics, TheBoardAndTheAlertsUseMetricsThatThereAre) {
  JobStatus status = running(1);
  status.counters.failures = {{"worker died", 1}};
  status.stragglers = {{.slot = 0, .factor = 2}};
  const std::string text = to_open_metrics({.status = status, .checkpoint_age_s = 1, .goodput = 1}, true);
  for (const char* name : {"/docs/alerts.yml", "/docs/grafana.json"}) {
    const std::string file = read_file(std::string(TRIREME_SOURCE_DIR) + name);
    for (std::size_t at = file.find("trireme_"); at != file.npos; at = file.find("trireme_", at + 1)) {
      const std::string metric = file.substr(at, file.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at) - at);
      EXPECT_THAT(text, HasSubstr("\n" + metric)) << name;
    }
  }
}

// ---- trireme top.

TEST(TopScreen, ShowsMembersAndWhatTheyDo) {
  JobStatus status = running(2);
  status.workers[1].silent_s = 3;
  const std::string screen = render_top(status, {}, 0, {.columns = 140, .rows = 30, .colour = false, .run = "first"});
  EXPECT_THAT(screen, HasSubstr("first  running"));
  EXPECT_THAT(screen, HasSubstr("40.0 %  step 40 of 100  loss 0.5000  accuracy 80.00 %"));
  EXPECT_THAT(screen, HasSubstr("forward of step 40"));
  EXPECT_THAT(screen, HasSubstr("silent for 3.0 s"));
  EXPECT_THAT(screen, HasSubstr("compute"));
  EXPECT_THAT(screen, Not(HasSubstr("\x1b")));
}

TEST(TopScreen, FitsTheTerminal) {
  JobStatus status = running(300);
  status.reason = std::string(500, 'x');
  const std::string screen = render_top(status, {}, 0, {.columns = 60, .rows = 20, .colour = false, .run = "r"});
  EXPECT_EQ(std::count(screen.begin(), screen.end(), '\n'), 20);
  EXPECT_THAT(screen, HasSubstr("more lines"));
}

TEST(TopScreen, HostileTextControlsNoTerminal) {
  JobStatus status = running(1);
  status.reason = "\x1b[2Jgone";
  EXPECT_THAT(render_top(status, {}, 0, {.colour = false, .run = "\x1b]0;x\a"}), Not(HasSubstr("\x1b")));
}

TEST(BoundBy, SaysItInAWord) {
  EXPECT_EQ(bound_by({}), "");
  EXPECT_EQ(bound_by({0, 0, 0, 0, 0, 0, 0}), "");
  EXPECT_EQ(bound_by({5, 2, 2, 1, 0, 0, 0}), "data");
  EXPECT_EQ(bound_by({3, 2, 2, 1, 0, 0, 9}), "compute");
  EXPECT_EQ(bound_by({0, 1, 1, 7, 0, 0, 0}), "wait");
}

// ---- Hooks.

using Time = EventDetector::Time;
Time at(double s) { return Time{} + std::chrono::milliseconds(static_cast<std::int64_t>(1000 * (s + 1000))); }

std::vector<std::string> kinds(const std::vector<RunEvent>& events) {
  std::vector<std::string> all;
  for (const RunEvent& event : events) all.push_back(event.kind);
  return all;
}

TEST(EventDetector, TellsDeathAndRecoveryOnce) {
  EventDetector detector;
  JobStatus status = running(2);
  EXPECT_TRUE(detector.look(status, at(0)).empty());
  status.counters.failures["worker died"] = 1;
  EXPECT_EQ(kinds(detector.look(status, at(1))), std::vector<std::string>{"death"});
  EXPECT_TRUE(detector.look(status, at(2)).empty());
  status.counters.recovery_s.add(2.5);
  const auto events = detector.look(status, at(3));
  ASSERT_EQ(kinds(events), std::vector<std::string>{"recovery"});
  EXPECT_THAT(events[0].text, HasSubstr("2.5 s"));
  status.counters = {};  // another master counts anew
  EXPECT_TRUE(detector.look(status, at(4)).empty());
}

TEST(EventDetector, TellsAStallOnceUntilItIsOver) {
  EventDetector detector({.stall_after = 10s});
  JobStatus status = running(1);
  EXPECT_TRUE(detector.look(status, at(0)).empty());
  EXPECT_TRUE(detector.look(status, at(9)).empty());
  EXPECT_EQ(kinds(detector.look(status, at(11))), std::vector<std::string>{"stall"});
  EXPECT_TRUE(detector.look(status, at(30)).empty());
  status.now.step = 41;
  EXPECT_TRUE(detector.look(status, at(31)).empty());
  EXPECT_EQ(kinds(detector.look(status, at(42))), std::vector<std::string>{"stall"});
}

TEST(EventDetector, TellsASpikeOnce) {
  EventDetector detector;
  JobStatus status = running(1);
  for (int second = 0; second < 30; ++second) {
    ++status.now.step;
    EXPECT_TRUE(detector.look(status, at(second)).empty());
  }
  status.now.loss = 2;
  ++status.now.step;
  EXPECT_EQ(kinds(detector.look(status, at(31))), std::vector<std::string>{"spike"});
  ++status.now.step;
  EXPECT_TRUE(detector.look(status, at(32)).empty());
}

TEST(EventDetector, TellsThatTheLossIsNoNumber) {
  EventDetector detector;
  JobStatus status = running(1);
  status.state = JobPhase::kFailed;
  status.reason = "worker 0 failed: the loss is nan at step 17, lane 0";
  EXPECT_EQ(kinds(detector.look(status, at(0))), std::vector<std::string>{"nan"});
  EXPECT_TRUE(detector.look(status, at(1)).empty());
}

TEST(EventHooks, ACommandGetsTheEvent) {
  const TempFolder folder;
  {
    EventHooks hooks({.target = "cat > " + (folder / "said").string() + "; echo \" $TRIREME_EVENT $TRIREME_RUN\" >> " +
                                (folder / "said").string(),
                      .run = "runs/it's"});
    hooks.tell({.kind = "stall", .text = "no \"step\"", .step = 7});
  }
  const std::string said = read_file(folder / "said");
  EXPECT_THAT(said, HasSubstr(R"({"event":"stall","run":"runs/it's","step":7,"text":"no \"step\""} stall runs/it's)"));
}

TEST(EventHooks, AFailureIsCountedAndHurtsNobody) {
  EventHooks hooks({.target = "exit 3", .run = "r"});
  hooks.tell_end(0, "", 3);
  EXPECT_TRUE(eventually([&] { return hooks.told() == std::pair<std::uint64_t, std::uint64_t>{1, 1}; }));
}

TEST(EventHooks, CommandsThatDoNotReadHurtNobody) {
  EventHooks hooks({.target = "true", .run = "r"});
  for (int event = 0; event < 50; ++event) hooks.tell({.kind = "spike", .text = std::string(100'000, 'x')});
  EXPECT_TRUE(eventually([&] { return hooks.told() == std::pair<std::uint64_t, std::uint64_t>{50, 0}; }));
}

TEST(EventHooks, ACommandThatHangsIsKilled) {
  EventHooks hooks({.target = "sleep 1000", .run = "r", .command_within = 50ms});
  hooks.tell({.kind = "stall"});
  EXPECT_TRUE(eventually([&] { return hooks.told().second == 1; }));
}

TEST(EventHooks, AServerGetsTheEventByPost) {
  struct Receiver final : net::HttpHandler {
    net::HttpReply answer(const net::HttpRequest& request) override {
      const MutexLock lock(mutex);
      got = request.method + " " + request.path + " " + request.body;
      return {};
    }
    std::unique_ptr<net::HttpFeed> feed(const net::HttpRequest&) override { return nullptr; }
    Mutex mutex;
    std::string got;
  } receiver;
  const net::HttpServer server({}, receiver);
  {
    EventHooks hooks({.target = server.url() + "hook", .run = "r"});
    hooks.tell_end(1, "it broke", 3);
  }
  const MutexLock lock(receiver.mutex);
  EXPECT_EQ(receiver.got, R"(POST /hook {"event":"finish","run":"r","step":3,"text":"failed: it broke"})");
}

TEST(EventHooks, NobodyIsTold) {
  EventHooks hooks({.target = "", .run = "r"});
  hooks.tell({.kind = "stall"});
  hooks.watch(running(1), at(0));
  EXPECT_EQ(hooks.told().first, 0u);
  EXPECT_THROW(EventHooks({.target = "http:///x", .run = "r"}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::dash
