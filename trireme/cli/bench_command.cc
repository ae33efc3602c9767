#include <memory>

#include "trireme/cli/bench_ps.h"
#include "trireme/cli/commands.h"

namespace trireme::cli {

void add_bench(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("bench", "measure Trireme on this machine");
  command->require_subcommand(1);
  auto* ps = command->add_subcommand("ps", "parameter server: push, pull and push+pull beside memcpy and raw TCP");
  auto options = std::make_shared<BenchPsOptions>();
  ps->add_flag("--json", options->json, "one JSON object on standard output");
  ps->add_flag("--quick", options->quick, "fewer repetitions: to see that it works");
  ps->callback([options, &action] { action = [options] { return bench_ps(*options); }; });
}

}  // namespace trireme::cli
