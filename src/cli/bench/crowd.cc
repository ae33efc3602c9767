#include "cli/bench/crowd.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "trireme/deadline.h"
#include "trireme/parameter_server.h"

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "chaos/job_processes.h"
#include "launch/companion.h"
#include "launch/supervisor.h"
#include "observe/bench_report.h"
#include "observe/step_trace.h"

namespace trireme::cli {
namespace {

using chaos::FaultRole;
using observe::Json;
using observe::StepEvent;

constexpr std::size_t kElements = 1000;  // of the one table: the crowd is measured, not the bytes
constexpr auto kPatience = 300s;         // for a job to get on; several hundred processes may have two cores

double since(std::int64_t start) { return static_cast<double>(observe::trace_clock() - start) / 1e9; }

/// One job of the benchmark, from its start to its end.
class CrowdJob {
 public:
  CrowdJob(const BenchCrowdOptions& options, std::uint32_t workers, const std::filesystem::path& folder)
      : options_(options), workers_(workers), folder_(folder), traces_(folder) {
    const std::string self = launch::companion_program("trireme");
    launcher_ = supervisor_.start(
        {.name = "trireme run",
         .argv = {self, "run", "--workers", std::to_string(workers), "--servers", std::to_string(options.servers),
                  "--out", folder.string(), "--", self, "bench", "crowd-worker"},
         .log = log()});
  }

  Json measure() {
    const std::int64_t started = observe::trace_clock();
    await("the first step", [&] { return furthest_ > 0; });
    const double joined = since(started);
    const Step at_first = furthest_;
    const std::int64_t first = observe::trace_clock();
    await("half of the steps", [&] { return furthest_ >= options_.steps / 2; });
    const double rate = static_cast<double>(furthest_ - at_first) / since(first);
    Json row{{"workers", workers_}, {"join_seconds", joined}, {"steps_per_second", rate}};
    row.update(kill_a_tenth());
    await("the rest of the steps", [&] { return furthest_ >= options_.steps; });
    row.update(usage());
    end();
    return row;
  }

 private:
  std::filesystem::path log() const { return folder_.string() + ".log"; }

  /// Follows the job until `done`. Throws Error if it ends, or takes too long.
  template <typename Done>
  void await(const std::string& what, Done done) {
    const Deadline deadline = Deadline::in(kPatience);
    while (!done()) {
      if (!supervisor_.wait(Deadline::in(20ms)).empty()) {
        fail<Error>("the job of {} workers ended before {}:\n{}", workers_, what, read_file(log()));
      }
      if (deadline.passed()) {
        fail<Timeout>("the job of {} workers did not get to {} within {:.0f} s", workers_, what, seconds(kPatience));
      }
      for (const StepEvent& event : traces_.next()) notice(event);
    }
  }

  void notice(const StepEvent& event) {
    furthest_ = std::max(furthest_, event.step);
    view_ = std::max(view_, event.view);
    if (event.view > broken_view_) awaited_.erase(event.slot);
  }

  Json kill_a_tenth() {
    std::vector<chaos::JobProcess> victims = chaos::job_processes(launcher_);
    std::erase_if(victims, [](const chaos::JobProcess& process) { return process.role != FaultRole::kWorker; });
    auto order = shuffled(victims.size(), workers_, 0);
    order.resize(std::min<std::size_t>(order.size(), std::max(1u, workers_ / 10)));
    broken_view_ = view_;
    for (const std::uint64_t victim : order) {
      awaited_.insert(victims[victim].slot);
      ::kill(victims[victim].pid, SIGKILL);
    }
    const std::int64_t killed = observe::trace_clock();
    await("a step without the dead", [&] { return view_ > broken_view_; });
    const double next = since(killed);
    await("a step with the successors of the dead", [&] { return awaited_.empty(); });
    return {{"killed", order.size()}, {"next_step_seconds", next}, {"back_seconds", since(killed)}};
  }

  /// What master and servers hold; of the servers, the one that holds most.
  Json usage() const {
    Json row{{"master_bytes", 0}, {"master_files", 0}, {"server_bytes", 0}, {"server_files", 0}};
    for (const chaos::JobProcess& process : chaos::job_processes(launcher_)) {
      const auto held = chaos::usage_of(process.pid);
      if (!held || process.role == FaultRole::kWorker) continue;
      const std::string role = chaos::to_string(process.role);
      const auto keep_largest = [&](const std::string& key, std::uint64_t value) {
        row[key] = std::max(row[key].get<std::uint64_t>(), value);
      };
      keep_largest(role + "_bytes", held->resident_bytes);
      keep_largest(role + "_files", held->files);
    }
    return row;
  }

  void end() {
    ::kill(launcher_, SIGINT);
    const Deadline deadline = Deadline::in(kPatience);
    while (supervisor_.alive() > 0 && !deadline.passed()) {
      for (const launch::Exit& exit : supervisor_.wait(Deadline::in(1s))) {
        if (exit.status != 0) fail<Error>("the job of {} workers failed:\n{}", workers_, read_file(log()));
      }
    }
    if (supervisor_.alive() > 0) {
      fail<Timeout>("the job of {} workers did not end within {:.0f} s", workers_, seconds(kPatience));
    }
  }

  const BenchCrowdOptions& options_;
  std::uint32_t workers_;
  std::filesystem::path folder_;
  observe::TraceFollower traces_;
  launch::Supervisor supervisor_;
  pid_t launcher_ = 0;
  Step furthest_ = 0;
  View view_ = 0;
  View broken_view_ = ~View{0};      // the one that lost members; later ones are without them
  std::set<std::uint32_t> awaited_;  // slots whose successors have not made a step yet
};

observe::BenchReport empty_report() {
  observe::BenchReport report;
  report.tables.push_back({.key = "rows",
                           .title = "Jobs of many workers that do no arithmetic: until the first step, then a tenth of "
                                    "them is killed at\nonce: until the next step, and until all successors take part",
                           .columns = {{"workers", "workers"},
                                       {"join_seconds", "join s", observe::as_fixed},
                                       {"steps_per_second", "steps/s", observe::as_fixed},
                                       {"killed", "killed"},
                                       {"next_step_seconds", "next step s", observe::as_fixed},
                                       {"back_seconds", "all back s", observe::as_fixed},
                                       {"master_bytes", "master holds", observe::as_size},
                                       {"master_files", "files"},
                                       {"server_bytes", "a server holds", observe::as_size},
                                       {"server_files", "files"}},
                           .rows = {}});
  return report;
}

}  // namespace

int bench_crowd(const BenchCrowdOptions& options) {
  const auto folder = std::filesystem::temp_directory_path() / ("trireme-crowd-" + random_hex(6));
  std::filesystem::create_directories(folder);
  observe::BenchReport report = empty_report();
  for (const std::uint32_t workers : options.workers) {
    fmt::print(stderr, "bench crowd: {} workers, {} servers\n", workers, options.servers);
    try {
      report.tables[0].rows.push_back(CrowdJob(options, workers, folder / std::to_string(workers)).measure());
    } catch (const std::exception& problem) {
      fmt::print(stderr, "bench crowd: {}; logs: {}\n", problem.what(), folder.string());
      return 1;
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
  return 0;
}

int crowd_worker() {
  const auto job = Job::join();
  if (!job->folder()) fail<InvalidArgument>("this is a worker of 'trireme bench crowd', which starts it");
  ps::ParameterTables tables(*job, {{"table", kElements}}, {.optimizer = {.rule = optim::Rule::kSgd}});
  tables.initialise();
  observe::StepTrace trace(*job->folder(), job->slot(), ::getpid());
  for (bool stop = false; !stop;) {
    tables.push();
    const ps::PushResult result = tables.wait();
    trace.add({.kind = StepEvent::Kind::kCommit, .step = result.version, .view = job->view()});
    stop = result.stop;
  }
  tables.leave();
  return 0;
}

}  // namespace trireme::cli
