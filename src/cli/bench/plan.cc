#include "cli/bench/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "cli/model/model_use.h"
#include "cli/plan/calibrate.h"
#include "cli/plan/options.h"
#include "launch/companion.h"
#include "launch/supervisor.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

using observe::Json;

constexpr std::uint64_t kVocabulary = 256;  // bytes
constexpr std::uint32_t kRow = 5;           // steps per row of metrics

struct Layout {
  const char* mesh;
  std::uint32_t zero = 0;
  const char* schedule = "";
  std::uint32_t micro_batches = 1;
};

constexpr Layout kLayouts[] = {{"data=1"},
                               {"data=1", 0, "", 4},
                               {"data=2"},
                               {"data=2", 1},
                               {"data=2", 2},
                               {"data=2", 3},
                               {"data=2", 2, "", 4},
                               {"data=2", 3, "", 4},
                               {"data=1,pipe=2", 0, "1f1b", 8},
                               {"data=1,pipe=2", 0, "zb-h1", 8},
                               {"data=1,tensor=2"},
                               {"data=2,pipe=2", 0, "1f1b", 4},
                               {"data=2,pipe=2", 2, "1f1b", 4},
                               {"data=1,pipe=4", 0, "1f1b", 8}};

struct Measured {
  double step_seconds = 0;
  double memory = 0;  ///< of the fullest worker
};

/// The bytes behind "key=" in a line of a log.
double bytes_in(const std::string& line, const std::string& key) {
  const std::size_t at = line.find(" " + key + "=");
  return at == std::string::npos ? 0 : std::strtod(line.c_str() + at + key.size() + 2, nullptr);
}

/// Without a mesh and ZeRO parameters are tensors like others, and counted among them.
double memory_in(const std::filesystem::path& log, bool plain) {
  std::ifstream lines(log);
  double bytes = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("event=memory_held") == std::string::npos) continue;
    bytes = 0;
    for (const char* part : {"parameters", "gradients", "optimizer", "in_transit", "tensors"}) {
      bytes += bytes_in(line, part);
    }
    if (plain) bytes -= bytes_in(line, "parameters");
  }
  return bytes;
}

Measured read_run(const std::filesystem::path& run, bool plain) {
  Measured measured;
  std::vector<double> steps;
  std::ifstream rows(run / "metrics.jsonl");
  for (std::string line; std::getline(rows, line);) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_object() && row.value("kind", "") == "train") steps.push_back(row.value("interval_s", 0.0) / kRow);
  }
  if (!steps.empty()) measured.step_seconds = *std::ranges::min_element(steps);  // the least disturbed
  for (const auto& entry : std::filesystem::directory_iterator(run / "logs")) {
    if (!entry.path().filename().string().starts_with("worker")) continue;
    measured.memory = std::max(measured.memory, memory_in(entry.path(), plain));
  }
  return measured;
}

class PlanBench {
 public:
  explicit PlanBench(const BenchPlanOptions& options) : options_(options) {
    std::filesystem::create_directories(folder_.path());
    std::ofstream text(folder_.path() / "numbers.txt");
    for (std::uint64_t i = 0; i < 40 * options.length; ++i) text << i * i << ' ';
  }

  /// Returns nullopt if a training failed, which has been told.
  std::optional<observe::BenchReport> run() {
    fmt::print(stderr, "measuring this machine\n");
    PlanFlags flags = flags_of(kLayouts[0]);
    write_text(flags.calibration, plan::to_text(calibrate({.model = plan_request_model(flags)})));
    observe::BenchTable table{.key = "layouts",
                              .title = fmt::format("{}, {} tokens, batch {}: predicted and measured", options_.model,
                                                   options_.length, options_.batch),
                              .columns = {{"mesh", "mesh"},
                                          {"zero", "ZeRO"},
                                          {"schedule", "schedule"},
                                          {"micro_batches", "micro-batches"},
                                          {"predicted_ms", "step ms", observe::as_fixed},
                                          {"measured_ms", "measured", observe::as_fixed},
                                          {"time_ratio", "ratio", observe::as_fixed},
                                          {"predicted_mb", "memory MB", observe::as_fixed},
                                          {"measured_mb", "measured", observe::as_fixed},
                                          {"memory_ratio", "ratio", observe::as_fixed}}};
    double worst_time = 0;
    double worst_memory = 0;
    for (const Layout& layout : kLayouts) {
      const auto measured = train(layout);
      if (!measured) return std::nullopt;
      const plan::Candidate predicted = plan::make_plan(plan_request(flags_of(layout))).best();
      const double time = predicted.prediction.step_seconds / measured->step_seconds;
      const double memory = predicted.prediction.memory.total() / measured->memory;
      worst_time = std::max(worst_time, std::abs(time - 1));
      worst_memory = std::max(worst_memory, std::abs(memory - 1));
      table.rows.push_back({{"mesh", layout.mesh},
                            {"zero", layout.zero},
                            {"schedule", layout.schedule},
                            {"micro_batches", layout.micro_batches},
                            {"predicted_ms", 1e3 * predicted.prediction.step_seconds},
                            {"measured_ms", 1e3 * measured->step_seconds},
                            {"time_ratio", time},
                            {"predicted_mb", predicted.prediction.memory.total() / 1e6},
                            {"measured_mb", measured->memory / 1e6},
                            {"memory_ratio", memory}});
    }
    using Bound = observe::BenchTarget::Bound;
    return observe::BenchReport{
        .tables = {table},
        .targets = {{.what = "steps: farthest from what was predicted, as a share",
                     .bound = Bound::kAtMost,
                     .required = 0.2,
                     .measured = worst_time},
                    {.what = "memory: likewise", .bound = Bound::kAtMost, .required = 0.05, .measured = worst_memory}}};
  }

 private:
  PlanFlags flags_of(const Layout& layout) const {
    PlanFlags flags;
    flags.model = options_.model;
    flags.length = options_.length;
    flags.classes = kVocabulary;
    flags.batch = options_.batch;
    flags.mesh = layout.mesh;
    flags.workers = static_cast<std::uint32_t>(plan::parse_mesh(layout.mesh).ranks());
    flags.zero = layout.zero;
    flags.schedule = layout.schedule;
    flags.micro_batches = layout.micro_batches;
    flags.recompute = "off";
    flags.calibration = (folder_.path() / "calibration.json").string();
    return flags;
  }

  std::optional<Measured> train(const Layout& layout) {
    const plan::Mesh mesh = plan::parse_mesh(layout.mesh);
    fmt::print(stderr, "training on {}, ZeRO {}, {} micro-batches\n", plan::to_text(mesh), layout.zero,
               layout.micro_batches);
    const std::filesystem::path run = folder_.path() / fmt::format("run{}", ++runs_);
    std::vector<std::string> argv{launch::companion_program("trireme"),
                                  "train",
                                  "--json",
                                  "--data",
                                  (folder_.path() / "numbers.txt").string(),
                                  "--model",
                                  options_.model,
                                  "--length",
                                  std::to_string(options_.length),
                                  "--batch",
                                  std::to_string(options_.batch),
                                  "--lanes",
                                  std::to_string(std::uint64_t{mesh.data} * layout.micro_batches),
                                  "--steps",
                                  std::to_string(options_.steps),
                                  "--log-every",
                                  std::to_string(kRow),
                                  "--checkpoint-every",
                                  "0",
                                  "--threads",
                                  "1",
                                  "--out",
                                  run.string(),
                                  "--strategy",
                                  layout.zero > 0 ? fmt::format("zero:{}", layout.zero) : "allreduce",
                                  "--workers",
                                  std::to_string(mesh.ranks())};
    if (mesh.pipe > 1 || mesh.tensor > 1) argv.insert(argv.end(), {"--mesh", plan::to_text(mesh)});
    if (mesh.pipe > 1) argv.insert(argv.end(), {"--pipeline", layout.schedule});
    const std::filesystem::path log = folder_.path() / "log";
    launch::Supervisor supervisor;
    supervisor.start({.name = "trireme train", .argv = argv, .log = log});
    const Deadline deadline = Deadline::in(std::chrono::minutes(10));
    while (supervisor.alive() > 0 && !deadline.passed()) supervisor.wait(deadline);
    if (supervisor.alive() > 0 || supervisor.worst_status() != 0) {
      fmt::print(stderr, "trireme: this training failed:\n{}\n", read_file(log.string()));
      return std::nullopt;
    }
    return read_run(run, layout.zero == 0 && mesh.pipe == 1 && mesh.tensor == 1);
  }

  static plan::ModelCost plan_request_model(const PlanFlags& flags) {
    return plan::model_cost(flags.model, {.length = *flags.length, .classes = *flags.classes});
  }

  BenchPlanOptions options_;
  JobFolder folder_;
  int runs_ = 0;
};

}  // namespace

int bench_plan(const BenchPlanOptions& options) {
  const auto report = PlanBench(options).run();
  if (!report) return 1;
  std::fputs(options.json ? (observe::to_object(*report).dump() + "\n").c_str() : observe::to_text(*report).c_str(),
             stdout);
  return 0;
}

}  // namespace trireme::cli
