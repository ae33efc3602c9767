#include "dash/dashboard.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "dash/metric_rows.h"
#include "dash/plot.h"
#include "tests/support/temp_folder.h"

namespace trireme::dash {
namespace {

using net::HttpRequest;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kToken = "0123456789abcdef";
const std::string kHostile = "<img src=x onerror=alert(1)>";

/// A folder of runs: one finished, one with a hostile name, and files that are no run.
class DashboardTest : public testing::Test {
 protected:
  DashboardTest() {
    make_run("20260301-091502-lenet", R"({"status": 0, "failure": "", "result": {"steps": 20}, "stopped": false})");
    make_run(kHostile, R"({"status": 1, "failure": "worker 0 failed", "result": null})");
    std::filesystem::create_directory(runs_ / "no-run");
  }

  void make_run(const std::string& name, const std::string& outcome) const {
    std::filesystem::create_directories(runs_ / name / "logs");
    runs_.write(name + "/config.toml", "# flags\nmodel = \"lenet\"\nlr = 0.1\n");
    runs_.write(name + "/outcome.json", outcome);
    runs_.write(
        name + "/metrics.jsonl",
        "{\"kind\":\"train\",\"step\":10,\"loss\":0.5,\"seconds\":1.5}\n"
        "{\"kind\":\"test\",\"step\":10,\"accuracy\":0.9}\n"
        "{\"kind\":\"train\",\"step\":20,\"loss\":null,\"not_finite\":{\"loss\":\"nan\"},\"seconds\":3}\n{\"cut");
    runs_.write(name + "/logs/master.log",
                "2026-03-01T09:15:02.125Z info    [master] formed a view event=view_formed view=1 workers=2 servers=0 "
                "reason=\"all are here\"\n");
  }

  Dashboard make(std::filesystem::path root, bool live = false) {
    return Dashboard({.runs = std::move(root),
                      .token = kToken,
                      .version = "1",
                      .page = page_,
                      .status =
                          [live](const auto&) {
                            cluster::JobStatus status;
                            status.state = cluster::JobPhase::kRunning;
                            return live ? std::optional(status) : std::nullopt;
                          },
                      .act = [this](const auto&, const RunAction& action) { actions_.push_back(action); },
                      .now = [] { return 1000.0; }});
  }

  static HttpRequest get(const std::string& path, std::map<std::string, std::string> query = {}) {
    return {.method = "GET", .path = path, .query = std::move(query)};
  }
  static HttpRequest post(const std::string& path, const std::string& body, const std::string& token = kToken) {
    return {.method = "POST", .path = path, .query = {{"name", "20260301-091502-lenet"}}, .body = body, .token = token};
  }

  TempFolder runs_;
  const std::array<WebFile, 2> page_{WebFile{"/index.html", "text/html", "<html>"},
                                     WebFile{"/assets/a.js", "text/javascript", "1"}};
  std::vector<RunAction> actions_;
};

TEST_F(DashboardTest, ADamagedRunDoesNotHideTheOthers) {
  make_run("damaged", R"({"status": "no number", "failure": 7, "stopped": "yes", "result": [1]})");
  runs_.write("damaged/metrics.jsonl", "{\"kind\":5,\"step\":\"ten\",\"seconds\":null}\n");
  make_run("worse", "[]");
  runs_.write("worse/metrics.jsonl", "{\"kind\":\"train\",\"step\":{},\"seconds\":\"long\"}\n");
  auto dashboard = make(runs_.path());
  const auto answer = dashboard.answer(get("/api/runs"));
  EXPECT_EQ(answer.status, 200u) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("20260301-091502-lenet"));
  EXPECT_THAT(answer.body, HasSubstr("\"damaged\""));
}

TEST_F(DashboardTest, ServesThePage) {
  auto dashboard = make(runs_.path());
  EXPECT_EQ(dashboard.answer(get("/")).body, "<html>");
  EXPECT_EQ(dashboard.answer(get("/assets/a.js")).type, "text/javascript");
  EXPECT_EQ(dashboard.answer(get("/../../etc/passwd")).status, 404u);
  EXPECT_EQ(dashboard.answer(get("/healthz")).body, "ok\n");
}

TEST_F(DashboardTest, SaysThatThePageWasLeftOut) {
  Dashboard dashboard({.runs = runs_.path(), .token = kToken});
  EXPECT_THAT(dashboard.answer(get("/")).body, HasSubstr("left out of this build"));
}

TEST_F(DashboardTest, ListsRuns) {
  auto dashboard = make(runs_.path());
  const json reply = json::parse(dashboard.answer(get("/api/runs")).body);
  EXPECT_FALSE(reply["single"]);
  ASSERT_EQ(reply["runs"].size(), 2u);
  const json& run = reply["runs"][0]["name"] == kHostile ? reply["runs"][1] : reply["runs"][0];
  EXPECT_EQ(run["state"], "finished");
  EXPECT_EQ(run["flags"]["model"], "lenet");
  EXPECT_EQ(run["flags"]["lr"], "0.1");
  EXPECT_EQ(run["step"], 20);
  EXPECT_EQ(run["test"]["accuracy"], 0.9);
  EXPECT_EQ(run["started"], 1772356502);
  EXPECT_EQ(json::parse(dashboard.answer(get("/api/runs")).body), reply);  // from what it remembers
}

TEST_F(DashboardTest, OneRunFromItsFiles) {
  auto dashboard = make(runs_ / kHostile);
  const json run = json::parse(dashboard.answer(get("/api/run")).body);
  EXPECT_EQ(run["name"], kHostile);
  EXPECT_EQ(run["state"], "failed");
  EXPECT_EQ(run["failure"], "worker 0 failed");
  EXPECT_FALSE(run["live"]);
  EXPECT_EQ(run["history"]["views"][0]["reason"], "all are here");
  const json rows = json::parse(dashboard.answer(get("/api/rows")).body);
  EXPECT_EQ(rows.size(), 3u);
  const json lines = json::parse(dashboard.answer(get("/api/log", {{"level", "info"}})).body);
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_EQ(dashboard.answer(get("/api/timeline")).status, 404u);
  EXPECT_EQ(dashboard.answer(get("/api/nothing")).status, 404u);
  EXPECT_EQ(dashboard.answer(get("/metrics")).status, 503u);
  EXPECT_EQ(dashboard.answer(get("/readyz")).status, 503u);
}

TEST_F(DashboardTest, ANameIsNeverAPath) {
  auto dashboard = make(runs_.path());
  for (const char* name : {"", ".", "..", "../", "no-run", "/etc", "20260301-091502-lenet/logs", "a\0b"}) {
    EXPECT_THROW(dashboard.answer(get("/api/run", {{"name", name}})), InvalidArgument) << name;
    EXPECT_THROW(dashboard.feed(get("/api/feed", {{"name", name}})), InvalidArgument) << name;
  }
}

TEST_F(DashboardTest, MetricsAndHealthOfALiveRun) {
  auto dashboard = make(runs_ / "20260301-091502-lenet", /*live=*/true);
  EXPECT_EQ(dashboard.answer(get("/readyz")).status, 200u);
  EXPECT_THAT(dashboard.answer(get("/metrics")).body, HasSubstr("# TYPE trireme_steps_total counter"));
  auto request = get("/metrics");
  request.accept = "application/openmetrics-text;version=1.0.0";
  EXPECT_THAT(dashboard.answer(request).type, HasSubstr("openmetrics"));
  EXPECT_EQ(make(runs_.path()).answer(get("/metrics")).status, 404u);
}

TEST_F(DashboardTest, NothingIsDoneWithoutTheToken) {
  auto dashboard = make(runs_.path(), /*live=*/true);
  for (const char* action : {"/api/stop", "/api/scale", "/api/annotate", "/api/stacks"}) {
    for (const std::string token : {"", "0123456789abcdee", "0123456789abcdef0", "0"}) {
      EXPECT_THROW(dashboard.answer(post(action, "{}", token)), Unauthenticated);
    }
    EXPECT_NE(dashboard.answer(get(action, {{"name", kHostile}})).status, 200u);  // nor by GET
  }
  EXPECT_TRUE(actions_.empty());
}

TEST_F(DashboardTest, DoesWhatIsAskedForWithTheToken) {
  auto dashboard = make(runs_.path(), /*live=*/true);
  EXPECT_EQ(dashboard.answer(post("/api/stop", "")).status, 200u);
  EXPECT_EQ(dashboard.answer(post("/api/scale", R"({"workers": 3})")).status, 200u);
  ASSERT_EQ(actions_.size(), 2u);
  EXPECT_EQ(actions_[0].kind, RunAction::Kind::kStop);
  EXPECT_EQ(actions_[1].scale.workers, 3u);
  EXPECT_THROW(dashboard.answer(post("/api/scale", "{}")), InvalidArgument);
  EXPECT_THROW(dashboard.answer(post("/api/scale", "[]")), InvalidArgument);
  EXPECT_EQ(dashboard.answer(post("/api/nothing", "{}")).status, 404u);
}

TEST_F(DashboardTest, ARunThatHasEndedIsOnlyAnnotated) {
  auto dashboard = make(runs_.path());
  EXPECT_THROW(dashboard.answer(post("/api/stop", "")), InvalidArgument);
  dashboard.answer(post("/api/annotate", R"({"text": "the first\none"})"));
  dashboard.answer(post("/api/annotate", R"({"text": "another"})"));
  EXPECT_THROW(dashboard.answer(post("/api/annotate", R"({"text": ""})")), InvalidArgument);
  const json run = json::parse(dashboard.answer(get("/api/run", {{"name", "20260301-091502-lenet"}})).body);
  ASSERT_EQ(run["notes"].size(), 2u);
  EXPECT_EQ(run["notes"][0]["text"], "the first\none");
  EXPECT_EQ(run["notes"][0]["time"], 1000);
}

TEST_F(DashboardTest, TheFeedTellsWhatIsNew) {
  auto dashboard = make(runs_.path());
  const auto feed = dashboard.feed(get("/api/feed", {{"name", kHostile}}));
  const json first = json::parse(feed->next());
  EXPECT_EQ(first["rows"].size(), 3u);
  EXPECT_EQ(first["run"]["name"], kHostile);
  EXPECT_EQ(feed->next(), "");
  std::ofstream(runs_ / (kHostile + "/metrics.jsonl"), std::ios::app) << "\n{\"kind\":\"train\",\"step\":30}\n";
  const json second = json::parse(feed->next());
  EXPECT_EQ(second["rows"].size(), 1u);
  EXPECT_FALSE(second["reset"]);
}

TEST_F(DashboardTest, NoFolder) { EXPECT_THROW(make(runs_ / "nowhere"), InvalidArgument); }

// ---- Rows.

TEST(MetricRows, FollowsAndNoticesAResume) {
  const TempFolder folder;
  MetricRows rows(folder / "metrics.jsonl");
  EXPECT_TRUE(rows.next().rows.empty());
  folder.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(rows.next().rows.size(), 2u);
  write_file_atomically(folder / "metrics.jsonl", as_bytes("{\"step\":1}\n"));  // rows after a checkpoint are dropped
  const auto news = rows.next();
  EXPECT_TRUE(news.reset);
  EXPECT_THAT(news.rows, ElementsAre("{\"step\":1}"));
}

TEST(MetricRows, ThinOutKeepsWhatMatters) {
  std::vector<std::string> rows;
  for (int i = 0; i < 1000; ++i) rows.push_back(fmt::format("{{\"kind\":\"train\",\"step\":{}}}", i));
  rows[501] = "{\"kind\":\"test\"}";
  rows[503] = "{\"kind\":\"train\",\"not_finite\":{}}";
  const auto kept = thin_out(rows, 100);
  EXPECT_LE(kept.size(), 104u);
  EXPECT_THAT(kept, testing::Contains("{\"kind\":\"test\"}"));
  EXPECT_THAT(kept, testing::Contains(rows[503]));
  EXPECT_EQ(kept.back(), rows.back());
  EXPECT_EQ(thin_out(rows, 5000).size(), 1000u);
}

// ---- Plots.

TEST(Plot, ALaterRowReplacesAnEarlierOne) {
  const std::vector<std::string> rows{R"({"kind":"train","step":10,"loss":3})",
                                      R"({"kind":"train","step":20,"loss":2})",
                                      R"({"kind":"train","step":30,"loss":9})",
                                      R"({"kind":"train","step":20,"loss":1})",
                                      R"({"kind":"test","step":20,"loss":5})",
                                      R"({"kind":"train","step":30,"loss":null,"not_finite":{"loss":"inf"}})",
                                      "garbage"};
  const auto series = series_of(rows, "loss");
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[0].name, "train");
  EXPECT_THAT(series[0].x, ElementsAre(10, 20, 30));
  EXPECT_THAT(series[0].y, ElementsAre(3, 1, std::numeric_limits<double>::infinity()));
  EXPECT_THAT(metric_names(rows), ElementsAre("loss"));
}

TEST(Plot, BrailleFitsAndMarksWhatIsNotFinite) {
  const std::vector<Series> series{{.name = "train", .x = {1, 10, 100}, .y = {1, std::nan(""), 0.01}}};
  const std::string text = plot_braille(series, {.columns = 60, .rows = 6, .log_x = true, .log_y = true});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8);
  EXPECT_THAT(text, HasSubstr("nan, inf"));
  EXPECT_THAT(text, HasSubstr("!"));
  EXPECT_THAT(text, HasSubstr("0.01"));
  EXPECT_FALSE(plot_braille({}, {}).empty());
}

TEST(Plot, SvgEscapesNames) {
  const std::vector<Series> series{{.name = "<script>", .x = {1, 2}, .y = {1, 1}}};
  const std::string text = plot_svg(series, {.title = "a<b\"&"});
  EXPECT_EQ(text.find("<script>"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("a&lt;b&quot;&amp;"));
  EXPECT_TRUE(text.starts_with("<svg"));
}

}  // namespace
}  // namespace trireme::dash
