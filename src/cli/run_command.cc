#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/train_flags.h"
#include "launch/job_runner.h"

namespace trireme::cli {
namespace {

struct RunFlags {
  std::string workers = "2";
  std::uint32_t servers = 1;
  std::string replicas = "auto";
  std::uint32_t restarts = 3;
  double wait_for_workers = 600;
  std::uint64_t max_views = 0;
  std::string transport = "auto";
  std::string throttle;
  std::uint32_t latency_ms = 0;
  bool trace_algorithms = false;
  std::string out;
  bool overwrite = false;
  bool json = false;
  std::vector<std::string> program;
};

int run(const RunFlags& flags) {
  if (flags.program.empty()) {
    fail<InvalidArgument>("which program? trireme run -w 2 -s 1 -- ./my_program --its-own-flags");
  }
  const WorkerRange workers = parse_workers(flags.workers);
  if (workers.start == 0) fail<InvalidArgument>("--workers 0: at least one worker is needed");
  net::parse_transport(flags.transport);
  if (!flags.throttle.empty()) net::parse_bit_rate(flags.throttle);
  const std::string name = std::filesystem::path(flags.program.front()).filename().string();
  const auto folder = observe::RunFolder::create({.path = flags.out, .model = name, .overwrite = flags.overwrite});
  const launch::JobOutcome outcome = launch::run_job({.workers = workers.start,
                                                      .min_workers = workers.least,
                                                      .min_start = workers.range_given ? workers.least : 0,
                                                      .servers = flags.servers,
                                                      .replicas = parse_replicas(flags.replicas, flags.servers),
                                                      .restarts = flags.restarts,
                                                      .wait_for_workers = flags.wait_for_workers,
                                                      .max_views = flags.max_views,
                                                      .transport = flags.transport,
                                                      .throttle = flags.throttle,
                                                      .latency_ms = flags.latency_ms,
                                                      .trace_algorithms = flags.trace_algorithms,
                                                      .worker_argv = flags.program,
                                                      .echo_chief = true,
                                                      .quiet = flags.json},
                                                     folder);
  if (!outcome.failure.empty()) {
    fmt::print(stderr, "trireme: {}\nlogs: {}\n", outcome.failure, folder.logs().string());
  } else if (flags.json) {
    fmt::print("{}\n", (outcome.result.is_null() ? nlohmann::json::object() : outcome.result).dump());
  } else {
    fmt::print("the run is in {}\n", folder.path().string());
  }
  return outcome.status;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("run", "run a program of your own as the workers of a job");
  auto flags = std::make_shared<RunFlags>();
  command
      ->add_option("-w,--workers", flags->workers,
                   "how many processes of the program; 2:8: at most 8, and the job waits while there are fewer than 2")
      ->capture_default_str();
  command
      ->add_option("--restarts", flags->restarts,
                   "how often a process that dies is restarted before it is left alone for a minute; 0: never")
      ->capture_default_str();
  command->add_option("--wait-for-workers", flags->wait_for_workers, "seconds to wait for more when too few are left")
      ->capture_default_str();
  command->add_option("--max-views", flags->max_views, "give up after this many changes of membership; 0: never")
      ->capture_default_str();
  command->add_option("-s,--servers", flags->servers, "how many parameter servers; 0: the program uses none")
      ->capture_default_str();
  command
      ->add_option("--replicas", flags->replicas,
                   "replicas of the parameters on other servers: 0, 1, or auto: 1 if there are two servers or more")
      ->check(CLI::IsMember({"auto", "0", "1"}))
      ->capture_default_str();
  command->add_option("--transport", flags->transport, "auto, shm, tcp or tls")->capture_default_str();
  command->add_option("--throttle", flags->throttle,
                      "experiments: limit links to this speed, such as 100mbit; over TCP");
  command->add_option("--latency-ms", flags->latency_ms,
                      "experiments: delay everything that workers send each other in the background by this much");
  command->add_flag("--trace-algorithms", flags->trace_algorithms,
                    "log which collective algorithms are chosen, and why (logs/worker-0.log)");
  command->add_option("--out", flags->out, "run folder; runs/<time>-<program> unless given");
  command->add_flag("--overwrite", flags->overwrite, "replace the run that is in --out");
  command->add_flag("--json", flags->json, "print the chief's result as one line of JSON at the end");
  command->add_option("program", flags->program, "the program and its own flags, after --");
  command->prefix_command();
  command->footer("Example: trireme run -w 4 -s 2 -- ./my_program --its-own-flags");
  command->callback([command, flags, &action] {
    std::vector<std::string> words = command->remaining();
    if (const auto dashes = std::ranges::find(words, "--"); dashes != words.end())
      words.erase(dashes);  // the first is ours
    flags->program.insert(flags->program.end(), words.begin(), words.end());
    action = [flags] { return run(*flags); };
  });
}

}  // namespace trireme::cli
