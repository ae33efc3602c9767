#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "launch/running_job.h"
#include "observe/run_folder.h"

namespace trireme::cli {

void add_stop(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("stop", "end a job that is running after its current step, with its state saved");
  auto run = std::make_shared<std::string>();
  command->add_option("run", *run, "its folder")->required();
  command->footer("Example: trireme stop runs/first\nTo continue it later: trireme resume runs/first");
  command->callback([run, &action] {
    action = [run] {
      launch::RunningJob job(observe::RunFolder::open(*run).path());
      job.stop("asked by trireme stop");
      fmt::print("{} ends {}\n", *run,
                 job.status().plan.elastic ? "after its current step"
                                           : "as soon as its own loop asks whether it should (world->should_stop())");
      return 0;
    };
  });
}

}  // namespace trireme::cli
