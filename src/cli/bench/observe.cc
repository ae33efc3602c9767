#include "cli/bench/observe.h"

#include <unistd.h>

#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "cluster/host_load.h"
#include "dash/dashboard.h"
#include "launch/companion.h"
#include "launch/supervisor.h"
#include "observe/bench_report.h"
#include "observe/phase_clock.h"
#include "observe/run_folder.h"
#include "observe/span_ring.h"
#include "observe/timeline.h"

namespace trireme::cli {
namespace {

using observe::Json;

constexpr double kFeedsPerSecond = 2;  // HttpServerOptions::feed_every
constexpr std::uint64_t kLeNetBatch = 64;

/// Returns the seconds of one call: the median of several rounds.
template <typename Call>
double time_of(std::uint32_t calls, Call call) {
  std::vector<double> rounds;
  for (int round = 0; round < 7; ++round) {
    const auto began = Deadline::Clock::now();
    for (std::uint32_t i = 0; i < calls; ++i) call();
    rounds.push_back(seconds(Deadline::Clock::now() - began) / calls);
  }
  return observe::median(rounds);
}

/// What a real training says of itself.
struct LeNetStep {
  double seconds = 0;
  double spans = 0;  ///< that are recorded in it
};

LeNetStep measure_lenet(const std::filesystem::path& folder, std::uint32_t steps) {
  const auto run = folder / "lenet";
  launch::Supervisor supervisor;
  supervisor.start({.name = "training",
                    .argv = {launch::companion_program("trireme"),
                             "train",
                             "--model",
                             "lenet",
                             "--data",
                             "synthetic",
                             "--strategy",
                             "allreduce",
                             "--workers",
                             "1",
                             "--batch",
                             std::to_string(kLeNetBatch),
                             "--steps",
                             std::to_string(steps),
                             "--checkpoint-every",
                             "0",
                             "--timeline",
                             "--dash",
                             "off",
                             "--json",
                             "--out",
                             run.string()},
                    .log = folder / "training.log"});
  while (supervisor.alive() > 0) supervisor.wait(Deadline::in(1s));
  if (supervisor.worst_status() != 0) fail<IoError>("the training failed: see {}", (folder / "training.log").string());
  const auto rows = nlohmann::json::parse(read_file(run / "result.json"));
  const auto timeline = nlohmann::json::parse(read_file(run / "timeline.json"));
  double spans = 0;
  for (const auto& event : timeline.at("traceEvents")) {
    if (event.value("ph", "") == "X" && event.contains("args") && event.at("args").contains("step")) ++spans;
  }
  return {.seconds = static_cast<double>(kLeNetBatch) / rows.at("samples_per_s").get<double>(), .spans = spans / steps};
}

/// A job of many workers that never existed.
cluster::JobStatus pretended(std::uint32_t workers) {
  cluster::JobStatus status;
  status.state = cluster::JobPhase::kRunning;
  status.plan = {.steps = 100000, .batch = 64, .lanes = workers};
  status.counters.step_s.bounds = {0.001, 0.01, 0.1, 1};
  for (std::uint32_t slot = 0; slot < workers; ++slot) {
    cluster::MemberStatus worker;
    worker.slot = slot;
    worker.pid = 1000 + slot;
    worker.host = "10.0.0.1";
    worker.samples_per_s = 1234.5;
    worker.phases.assign(7, 12.25);
    worker.activity = {.what = "forward", .step = 1, .for_s = 0.01};
    worker.load = cluster::host_load();
    status.workers.push_back(std::move(worker));
  }
  return status;
}

/// CPU seconds of this thread for one look of a page that is open, and for one scrape.
struct PageCost {
  double look = 0;
  double scrape = 0;
};

PageCost measure_page(const std::filesystem::path& folder, std::uint32_t workers) {
  const auto run = folder / "lenet";
  cluster::JobStatus status = pretended(workers);
  dash::Dashboard dashboard(
      {.runs = run, .token = "token", .status = [&](const auto&) { return std::optional(status); }});
  const auto feed = dashboard.feed({.method = "GET", .path = "/api/feed"});
  feed->next();
  PageCost cost;
  cost.look = time_of(20, [&] {
    for (auto& worker : status.workers) worker.samples_per_s += 1;  // everything is new each time
    feed->next();
  });
  cost.scrape = time_of(20, [&] { dashboard.answer({.method = "GET", .path = "/metrics"}); });
  return cost;
}

std::string as_percent(const Json& value) { return fmt::format("{:.3f} %", 100 * value.get<double>()); }
std::string as_micro(const Json& value) { return fmt::format("{:.2f}", 1e6 * value.get<double>()); }

}  // namespace

int bench_observe(const BenchObserveOptions& options) {
  const auto folder = std::filesystem::temp_directory_path() / ("trireme-observe-" + random_hex(6));
  std::filesystem::create_directories(folder / "logs");
  const LeNetStep step = measure_lenet(folder, options.steps);

  observe::PhaseClock clock(std::make_shared<observe::SpanRing>());
  const double span = time_of(100000, [&] { ScopedSpan one(&clock, "forward", 1); });
  const auto timeline_folder = observe::RunFolder::open(folder / "lenet");
  observe::PhaseClock with_timeline(
      std::make_shared<observe::SpanRing>(std::make_shared<observe::Timeline>(timeline_folder, "bench", ::getpid())));
  const double recorded = time_of(10000, [&] { ScopedSpan one(&with_timeline, "forward", 1); });
  const double load = time_of(200, [] { cluster::host_load(); });
  const PageCost page = measure_page(folder, options.workers);

  const double phases_share = step.spans * span / step.seconds;
  const double timeline_share = step.spans * recorded / step.seconds;
  const double load_share = load;  // once a second, on the thread of the heartbeats
  observe::BenchReport report;
  report.baseline = {{"lenet_step_s", step.seconds}, {"spans_per_step", step.spans}};
  report.tables.push_back(
      {.key = "rows",
       .title = fmt::format("Being watched, beside a step of LeNet of {:.2f} ms (batch {}, one "
                            "worker, {:.1f} spans in it)",
                            1e3 * step.seconds, kLeNetBatch, step.spans),
       .columns = {{"what", "what"}, {"seconds", "us each", as_micro}, {"share", "share", as_percent}},
       .rows = {
           {{"what", "a worker: where the time goes, its last spans (always)"},
            {"seconds", span},
            {"share", phases_share}},
           {{"what", "a worker: use of the host, once a second (always)"}, {"seconds", load}, {"share", load_share}},
           {{"what", "a worker: the same with --timeline"}, {"seconds", recorded}, {"share", timeline_share}},
           {{"what", fmt::format("the master: a page that is open, {} workers", options.workers)},
            {"seconds", page.look},
            {"share", kFeedsPerSecond * page.look}},
           {{"what", fmt::format("the master: a scrape of /metrics every 10 s, {} workers", options.workers)},
            {"seconds", page.scrape},
            {"share", page.scrape / 10}}}});
  report.targets.push_back({.what = "of LeNet's step, metrics and timeline",
                            .bound = observe::BenchTarget::Bound::kAtMost,
                            .required = 1,
                            .measured = 100 * (timeline_share + load_share),
                            .unit = "%"});
  report.targets.push_back({.what = fmt::format("of a core of the master, a page and {} workers", options.workers),
                            .bound = observe::BenchTarget::Bound::kAtMost,
                            .required = 2,
                            .measured = 100 * (kFeedsPerSecond * page.look + page.scrape / 10),
                            .unit = "%"});
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
  return 0;
}

}  // namespace trireme::cli
