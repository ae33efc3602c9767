#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cluster/environment.h"
#include "launch/job/running_job.h"
#include "net/address.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

/// Which job: that of a run's folder, or one whose processes were placed by hand.
struct StopFlags {
  std::string run;
  std::string master;
  std::string secret_file;
};

std::unique_ptr<launch::RunningJob> find_job(const StopFlags& flags) {
  if (flags.master.empty()) {
    if (flags.run.empty()) fail<InvalidArgument>("stop which job? give its folder, or --master host:port");
    return std::make_unique<launch::RunningJob>(observe::RunFolder::open(flags.run).path());
  }
  const std::string secret = cluster::read_secret([&](const char* name) -> const char* {
    const bool given = !flags.secret_file.empty();
    if (given) return std::string_view(name) == "TRIREME_SECRET_FILE" ? flags.secret_file.c_str() : nullptr;
    return std::getenv(name);
  });
  if (secret.empty()) fail<InvalidArgument>("a job is stopped with its secret: give --secret-file, or TRIREME_SECRET");
  return std::make_unique<launch::RunningJob>(net::parse_address(flags.master), secret);
}

}  // namespace

void add_stop(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("stop", "end a job that is running after its current step, with its state saved");
  auto flags = std::make_shared<StopFlags>();
  auto* run = command->add_option("run", flags->run, "its folder");
  command->add_option("--master", flags->master, "instead: where its master is, host:port, if you placed it yourself")
      ->excludes(run);
  command->add_option("--secret-file", flags->secret_file, "with --master: the job's secret; or TRIREME_SECRET");
  command->footer(
      "Example: trireme stop runs/first\nTo continue it later: trireme resume runs/first\n"
      "Placed by hand: trireme stop --master 127.0.0.1:4800 --secret-file secret");
  command->callback([flags, &action] {
    action = [flags] {
      const auto job = find_job(*flags);
      job->stop("asked by trireme stop");
      fmt::print("{} ends {}\n", flags->run.empty() ? "the job of " + flags->master : flags->run,
                 job->status().plan.elastic ? "after its current step"
                                            : "as soon as its own loop asks whether it should (world->should_stop())");
      return 0;
    };
  });
}

}  // namespace trireme::cli
