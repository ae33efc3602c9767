#include "cli/bench/recover.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/random.h"
#include "chaos/chaos_run.h"

namespace trireme::cli {
namespace {

using chaos::FaultKind;
using chaos::FaultRole;

constexpr std::uint32_t kWorkers = 4;
constexpr std::uint32_t kServers = 2;

struct Scenario {
  FaultRole role = FaultRole::kWorker;
  FaultKind kind = FaultKind::kKill;
  std::string strategy = "allreduce";
};

/// Steps of 20 ms, so that what is measured is the recovery and not how busy the machine is.
chaos::ChaosOptions chaos_of(const Scenario& scenario, const std::filesystem::path& folder, std::uint32_t rounds) {
  const bool servers = scenario.strategy == "ps";
  chaos::ChaosOptions options{
      .command = {.words = {"train", "--model", "mlp", "--data", "synthetic", "--strategy", scenario.strategy,
                            "--workers", std::to_string(kWorkers), "--lanes", std::to_string(kWorkers), "--steps",
                            "1000000", "--step-ms", "20", "--checkpoint-every", "0", "--restarts", "1000"}},
      .folder = folder,
      .plan = {.kinds = {scenario.kind},
               .roles = {scenario.role},
               .every = 20,
               .count = rounds,
               .workers = kWorkers,
               .servers = servers ? kServers : 0},
      .reference = false,
      .stop_after_faults = true,
      .work = {.lanes = kWorkers}};
  if (servers) options.command.words.insert(options.command.words.end(), {"--servers", std::to_string(kServers)});
  return options;
}

observe::Json measure(const Scenario& scenario, const std::filesystem::path& folder, std::uint32_t rounds) {
  std::filesystem::create_directories(folder / "logs");
  const chaos::ChaosReport report = chaos::run_chaos(chaos_of(scenario, folder, rounds));
  observe::Json row{{"role", chaos::to_string(scenario.role)},
                    {"fault", chaos::to_string(scenario.kind)},
                    {"strategy", scenario.strategy},
                    {"times", 0},
                    {"recovered", 0},
                    {"median_seconds", nullptr},
                    {"worst_seconds", nullptr},
                    {"back_median_seconds", nullptr},
                    {"steps_redone_worst", 0}};
  for (const observe::Json& found : chaos::summarise(report.recoveries)) row.update(found);
  const bool sound = report.audit.samples_missing == 0 && report.audit.samples_repeated == 0;
  row["survived"] = report.failure.empty();
  row["note"] = !report.failure.empty()
                    ? "the job ended: " + report.failure.substr(0, report.failure.find_first_of(";\n"))
                : sound ? ""
                        : report.audit.first_problem;
  return row;
}

std::string or_dash(const observe::Json& value) {
  return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : "–";
}

}  // namespace

int bench_recover(const BenchRecoverOptions& options) {
  const auto folder = std::filesystem::temp_directory_path() / ("trireme-recover-" + random_hex(6));
  observe::BenchReport report;
  report.tables.push_back(
      {.key = "rows",
       .title = fmt::format(
           "Recovery: {} workers, steps of 20 ms; seconds from the fault to the first step that needed the\n"
           "recovery (of a stopped worker: after 3 s of silence it is given up), and until a successor takes part",
           kWorkers),
       .columns = {{"role", "role"},
                   {"fault", "fault"},
                   {"strategy", "strategy"},
                   {"times", "times"},
                   {"recovered", "recovered"},
                   {"median_seconds", "median s", or_dash},
                   {"worst_seconds", "worst s", or_dash},
                   {"back_median_seconds", "back, median s", or_dash},
                   {"steps_redone_worst", "redone, worst"},
                   {"note", ""}},
       .rows = {}});
  for (const Scenario& scenario :
       {Scenario{FaultRole::kWorker, FaultKind::kKill}, Scenario{FaultRole::kWorker, FaultKind::kStop},
        Scenario{FaultRole::kMaster, FaultKind::kKill}, Scenario{FaultRole::kServer, FaultKind::kKill, "ps"}}) {
    const std::string name = chaos::to_string(scenario.kind) + " " + chaos::to_string(scenario.role);
    fmt::print(stderr, "bench recover: {}, {} times\n", name, options.rounds);
    try {
      report.tables[0].rows.push_back(measure(scenario, folder / name, options.rounds));
    } catch (const std::exception& problem) {
      fmt::print(stderr, "bench recover: {}; logs: {}\n", problem.what(), folder.string());
      return 1;
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
  return 0;
}

}  // namespace trireme::cli
