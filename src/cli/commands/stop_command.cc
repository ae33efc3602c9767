#include <memory>

#include "cli/commands/commands.h"
#include "cli/commands/named_job.h"

namespace trireme::cli {

void add_stop(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("stop", "end a job that is running after its current step, with its state saved");
  auto flags = std::make_shared<NamedJob>();
  declare_job(*command, *flags);
  command->footer(
      "Example: trireme stop runs/first\nTo continue it later: trireme resume runs/first\n"
      "Placed by hand: trireme stop --master 127.0.0.1:4800 --secret-file secret");
  command->callback([flags, &action] {
    action = [flags] {
      const auto job = find_job(*flags);
      job->stop("asked by trireme stop");
      fmt::print("{} ends {}\n", flags->name(),
                 job->status().plan.elastic ? "after its current step"
                                            : "as soon as its own loop asks whether it should (world->should_stop())");
      return 0;
    };
  });
}

}  // namespace trireme::cli
