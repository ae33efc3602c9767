#include "cli/bench/device_sums.h"

#include <cstdio>

#include <fmt/format.h>

#include "cli/model/model_use.h"
#include "cli/start/device_check.h"
#include "launch/job/job_runner.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

constexpr double kPromised = 0.6;                 // of a copy's speed
constexpr std::size_t kPromisedFrom = 16u << 20;  // bytes: below, it is the ranks' agreement that takes the time

/// What the chief reported; null if the job failed, which has been told.
nlohmann::json measure(const BenchAllReduceOptions& options, unsigned ranks, bool through_host) {
  JobFolder folder;
  const auto run = observe::RunFolder::create({.path = folder.path()});
  launch::JobSpec job;
  job.workers = job.min_workers = ranks;
  job.servers = 0;
  job.restarts = 0;
  job.quiet = true;
  const nlohmann::json request{{"device", options.device},
                               {"bytes", options.bytes},
                               {"through_host", through_host},
                               {"seconds", 0.1 * options.rounds}};
  job.worker_argv = worker_words({}, {"measure-sums", request.dump()});
  const launch::JobOutcome outcome = launch::run_job(job, run);
  if (outcome.status == 0 && !outcome.result.is_null()) return outcome.result;
  folder.keep();
  fmt::print(stderr, "bench allreduce: {}\nlogs: {}\n",
             outcome.failure.empty() ? "stopped before there was a result" : outcome.failure, run.logs().string());
  return {};
}

/// GB/s of the device's memory, read and written: each rank reads all of its share, and writes it into all.
double speed(unsigned ranks, std::size_t bytes, double us) {
  return 2.0 * ranks * static_cast<double>(bytes) / (1e3 * us);
}

}  // namespace

int bench_device_sums(const BenchAllReduceOptions& options) {
  check_device("--device", options.device);
  check_device_here(options.device, {});
  observe::BenchReport report;
  observe::BenchTable table{.key = "rows",
                            .title =
                                "all-reduce in the memory of a GPU, float32 sum in place (GB/s: what the sums read "
                                "and write there; copy: a plain copy of that size, counted likewise)",
                            .columns = {{"engine", "engine"},
                                        {"ranks", "ranks"},
                                        {"bytes", "size", observe::as_size},
                                        {"median_us", "median us", observe::as_fixed},
                                        {"gbps", "GB/s", observe::as_fixed},
                                        {"copy_gbps", "copy GB/s", observe::as_fixed},
                                        {"share", "of a copy", observe::as_fixed}},
                            .rows = {}};
  for (const unsigned ranks : options.ranks) {
    for (const bool through_host : {false, true}) {
      fmt::print(stderr, "{} ranks, {}\n", ranks, through_host ? "through the host's memory" : "the best way");
      const nlohmann::json result = measure(options, ranks, through_host);
      if (result.is_null()) return 1;
      for (const nlohmann::json& row : result.at("rows")) {
        const auto bytes = row.at("bytes").get<std::size_t>();
        const double gbps = speed(ranks, bytes, row.at("us").get<double>());
        const double copy = speed(1, bytes, row.at("copy_us").get<double>());
        table.rows.push_back({{"engine", result.at("engine")},
                              {"ranks", ranks},
                              {"bytes", bytes},
                              {"median_us", row.at("us")},
                              {"gbps", gbps},
                              {"copy_gbps", copy},
                              {"share", gbps / copy}});
        if (through_host || bytes < kPromisedFrom) continue;
        report.targets.push_back({.what = fmt::format("{} ranks, {}: x a copy", ranks, observe::as_size(bytes)),
                                  .bound = observe::BenchTarget::Bound::kAtLeast,
                                  .required = kPromised,
                                  .measured = gbps / copy});
      }
    }
  }
  report.tables.push_back(std::move(table));
  fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
  return 0;
}

}  // namespace trireme::cli
