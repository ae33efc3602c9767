// The page of a run that goes on, and what people see of it in a terminal. What a browser makes of it: tests/page/.

#include <csignal>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/types.h"

#include "base/file.h"
#include "net/address.h"
#include "tests/support/http.h"
#include "tests/system/training/long_job.h"

namespace trireme::system_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Page : public ::testing::Test {
 protected:
  Page()
      : job_({"-w", "2", "-s", "1", "--step-ms", "10", "--log-every", "2", "--metrics", "0", "--on-event",
              "cat >> " + (hooks_ / "said").string()}) {}

  void SetUp() override {
    ASSERT_TRUE(job_.trains("servers_attached"));
    page_ = json::parse(read_file(job_.run / "page.json"));
    port_ = page_.at("port").get<std::uint16_t>();
  }

  json get(const std::string& path) const { return json::parse(http_ask(port_, "GET " + path).body); }
  HttpAnswerText post(const std::string& path, const std::string& body, const std::string& token) const {
    return http_ask(port_, "POST " + path, "Authorization: Bearer " + token + "\r\n", body);
  }
  Outcome command(std::vector<std::string> words) const {
    words.insert(words.begin() + 1, job_.run.string());
    return run_trireme(job_.folder, words);
  }

  TempFolder hooks_;
  LongJob job_;
  json page_;
  std::uint16_t port_ = 0;
};

TEST_F(Page, TellsHowTheRunGoes) {
  ASSERT_TRUE(eventually([&] {
    const json run = get("/api/run");
    const json worker = run["status"]["workers"][1];
    return run["live"] == true && worker["phases"].size() == 7 && worker["phases"][1] > 0 &&
           worker["samples_per_s"] > 0 && worker["load"]["resident"] > 0 && worker["lanes"] > 0 &&
           run["status"]["counters"]["step_s"]["sum"] > 0 && !run["history"]["views"].empty();
  })) << get("/api/run").dump(1);
  EXPECT_TRUE(eventually([&] { return !get("/api/rows").empty(); }));
  EXPECT_EQ(http_ask(port_, "GET /healthz").status, 200);
  EXPECT_EQ(http_ask(port_, "GET /readyz").status, 200);
  const std::string metrics = http_ask(port_, "GET /metrics", "Accept: application/openmetrics-text\r\n").body;
  EXPECT_THAT(metrics, HasSubstr("\ntrireme_members{role=\"worker\"} 2\n"));
  EXPECT_THAT(metrics, HasSubstr("trireme_phase_seconds_total{phase=\"forward\",rank=\"1\"} "));
  EXPECT_TRUE(metrics.ends_with("# EOF\n"));
  EXPECT_THAT(command({"status"}).out, HasSubstr("page: http://127.0.0.1:" + std::to_string(port_) + "/#token="));
  EXPECT_EQ(std::filesystem::status(job_.run / "page.json").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(Page, SaysWhereEachProcessServesItsOwnMetrics) {
  json targets;
  ASSERT_TRUE(eventually([&] { return (targets = get("/targets")).size() == 3; })) << targets.dump(1);
  for (const json& target : targets) {
    const auto port = net::parse_address(target["targets"][0].get<std::string>()).port;
    const bool worker = target["labels"]["role"] == "worker";
    EXPECT_TRUE(eventually([&] {
      const std::string metrics = http_ask(port, "GET /metrics").body;
      return metrics.find("\ntrireme_view ") != std::string::npos &&
             metrics.find(worker ? "trireme_phase_seconds_total{phase=\"forward\"} " : "trireme_replicas{") !=
                 std::string::npos;
    })) << target.dump();
    EXPECT_EQ(http_ask(port, "GET /readyz").status, 200);
  }
}

TEST_F(Page, TheTerminalTellsTheSame) {
  const Outcome top = command({"top", "--once"});
  EXPECT_THAT(top.out, HasSubstr("worker 1"));
  EXPECT_THAT(top.out, HasSubstr("server 0"));
  EXPECT_THAT(command({"log", "-p", "worker 1"}).out, HasSubstr("[worker 1] joined the job event=joined"));
  EXPECT_THAT(command({"log", "-p", "master", "-l", "error"}).out, Not(HasSubstr("event=")));
  ASSERT_TRUE(eventually([&] { return !get("/api/rows").empty(); }));
  EXPECT_THAT(command({"plot"}).out, HasSubstr(" step\n"));
  EXPECT_THAT(command({"plot", "--svg", "-"}).out, HasSubstr("<svg"));
  const Outcome wrong = command({"plot", "-m", "los"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean"));
  const Outcome stacks = command({"stacks"});
  for (const char* process : {"master (pid", "worker 0 (pid", "worker 1 (pid", "server 0 (pid"}) {
    EXPECT_THAT(stacks.out, HasSubstr(process));
  }
  EXPECT_THAT(stacks.out, HasSubstr("trireme::cluster::Membership::beat"));
  EXPECT_FALSE(std::filesystem::exists(job_.run / "stacks"));
}

TEST_F(Page, NamesAWorkerThatIsStoppedAndAMasterIsReplacedBehindTheSameLink) {
  ::kill(job_.worker, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return get("/api/run")["hang"].dump().find("worker 1") != std::string::npos; }));
  ::kill(job_.worker, SIGCONT);
  ASSERT_TRUE(eventually([&] { return get("/api/run")["status"]["workers"].size() == 2; }));
  const pid_t server = get("/api/run")["status"]["servers"][0]["pid"];
  ::kill(server, SIGSTOP);
  EXPECT_TRUE(eventually([&] { return get("/api/run")["hang"].dump().find("server 0") != std::string::npos; }));
  ::kill(server, SIGCONT);
  const pid_t master = page_.at("pid").get<pid_t>();
  job_.job.send(SIGSTOP);  // it would replace a master that hangs
  ::kill(master, SIGSTOP);
  const Outcome stacks = command({"stacks"});
  EXPECT_THAT(stacks.out, HasSubstr("(stopped)"));
  EXPECT_THAT(stacks.out, HasSubstr("trireme::cluster::Membership::beat"));
  ::kill(master, SIGKILL);
  job_.job.send(SIGCONT);
  ASSERT_TRUE(eventually([&] {
    const json after = json::parse(read_file(job_.run / "page.json"), nullptr, false);
    return after.is_object() && after["pid"] != page_["pid"];
  }));
  const json after = json::parse(read_file(job_.run / "page.json"));
  EXPECT_EQ(after["url"], page_["url"]);
  EXPECT_EQ(after["token"], page_["token"]);
  EXPECT_TRUE(eventually([&] { return http_ask(port_, "GET /readyz").status == 200; }));
}

TEST_F(Page, ActsOnlyWithTheTokenAndTellsTheHook) {
  EXPECT_EQ(post("/api/stop", "{}", "wrong").status, 403);
  EXPECT_EQ(post("/api/stop", "{}", "").status, 403);
  EXPECT_EQ(
      http_ask(port_, "POST /api/stop",
               "Origin: http://evil.example\r\nAuthorization: Bearer " + page_.at("token").get<std::string>() + "\r\n")
          .status,
      403);
  EXPECT_EQ(post("/api/scale", R"({"workers": 99})", page_.at("token")).status, 400);
  EXPECT_EQ(post("/api/stop", "{}", page_.at("token")).status, 200);
  EXPECT_EQ(job_.job.wait().status, 0);
  EXPECT_FALSE(std::filesystem::exists(job_.run / "page.json"));
  EXPECT_THAT(read_file(hooks_ / "said"), HasSubstr(R"("event":"finish")"));
  job_.expect_nothing_left();
}

TEST_F(Page, SavesACheckpointWhenAskedTo) {
  EXPECT_EQ(post("/api/checkpoint", "{}", "wrong").status, 403);
  EXPECT_EQ(post("/api/checkpoint", "{}", page_.at("token")).status, 200);
  ASSERT_TRUE(eventually([&] {
    const json views = get("/api/run")["history"]["views"];
    return views.size() > 1 && views[1]["reason"] == "asked by the page" && views[1]["workers"] == 2;
  })) << get("/api/run")["history"].dump(1);
  const Outcome saved = command({"checkpoint"});
  EXPECT_EQ(saved.status, 0) << saved.err;
  EXPECT_THAT(saved.out, HasSubstr("checkpoint of step "));
  const json history = get("/api/run")["history"];
  EXPECT_EQ(history["views"].back()["reason"], "asked by trireme checkpoint");
  EXPECT_GE(history["checkpoints"].back()["step"], 1);
  EXPECT_EQ(history["recoveries"], 0) << "nobody was lost";
}

TEST_F(Page, RecordsTheLastStepsOfAllProcessesOnOneClock) {
  EXPECT_EQ(post("/api/record", "{}", "wrong").status, 403);
  EXPECT_EQ(http_ask(port_, "GET /api/recorded?request=1").status, 400);
  ASSERT_TRUE(eventually([&] {  // there are some
    const json now = get("/api/run")["status"]["now"];
    return now.is_object() && now.value("step", 0) > 10;
  }));
  json recorded;
  ASSERT_TRUE(eventually([&] {
    const auto asked = post("/api/record", R"({"steps": 4})", page_.at("token"));
    const std::string request = json::parse(asked.body)["request"].dump();
    return eventually([&] {
             recorded = get("/api/recorded?request=" + request);
             return recorded["missing"].empty();
           }) &&
           recorded["processes"].size() == 3;
  })) << recorded.dump(1).substr(0, 2000);
  EXPECT_EQ(recorded["error_us"], 0.0) << "they have one clock";
  std::map<std::string, std::map<Step, double>> first;  // by process and what it did
  for (const json& process : recorded["processes"]) {
    for (const json& thread : process["threads"]) {
      for (const json& span : thread["spans"]) {
        if (span[3].is_null()) continue;
        const std::string what = process["process"].get<std::string>() + " " + span[0].get<std::string>();
        const auto [place, fresh] = first[what].try_emplace(span[3].get<Step>(), span[1].get<double>());
        if (!fresh) place->second = std::min(place->second, span[1].get<double>());
      }
    }
  }
  std::size_t compared = 0;
  for (const auto& [step, begin] : first["server 0 update"]) {
    for (const char* push : {"worker 0 push", "worker 1 push"}) {
      if (!first[push].contains(step)) continue;
      EXPECT_LE(first[push][step], begin) << push << " of step " << step;
      ++compared;
    }
  }
  EXPECT_GE(compared, 4u) << recorded.dump().substr(0, 4000);
  const Outcome saved = command({"timeline", "--steps", "2", "-o", (job_.folder / "trace.json").string()});
  EXPECT_EQ(saved.status, 0) << saved.err;
  EXPECT_THAT(saved.out, HasSubstr("clock known to ±0.0 µs"));
  EXPECT_GT(json::parse(read_file(job_.folder / "trace.json"))["traceEvents"].size(), 10u);
}

TEST_F(Page, AThousandClientsDoNotDisturbAStep) {
  const auto step = [&] { return get("/api/run")["status"]["now"]["step"].get<Step>(); };
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(std::make_unique<RawClient>(port_));
    clients.back()->send(i % 2 == 0 ? "GET / HTTP/1.1\r\nHo" : std::string(200, '\xff'));
    if (clients.size() > 200) clients.erase(clients.begin());
  }
  const Step before = step();
  EXPECT_TRUE(eventually([&] { return step() > before + 10; }));
  EXPECT_EQ(get("/api/run")["status"]["view"], 1);
}

}  // namespace
}  // namespace trireme::system_test
