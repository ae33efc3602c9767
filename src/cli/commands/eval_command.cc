#include <cstdio>
#include <memory>

#include "trireme/metrics.h"

#include "base/error.h"
#include "cli/model/model_use.h"
#include "cli/start/own_program.h"

namespace trireme::cli {
namespace {

int evaluate(const UseFlags& flags, const WorkerProgram& program) {
  const ModelUse use = open_model_and_samples(flags, /*with_targets=*/true);
  JobFolder folder;
  nlohmann::json result = run_use("eval", use, flags, program, folder);
  if (result.is_null()) return 1;
  if (flags.json) {
    result["run"] = flags.run;
    fmt::print("{}\n", result.dump());
    return 0;
  }
  fmt::print("{} samples of {}\n", result.value("samples", std::uint64_t{0}), result.value("data", ""));
  fmt::print("loss {:.4f}", result.value("loss", 0.0));
  for (const nlohmann::json& metric : result.at("metrics")) {
    fmt::print(", {}", describe(NamedValue{metric.at("name"), metric.at("value")}));
  }
  fmt::print("\n");
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words) {
  auto* command = app.add_subcommand("eval", "how good the model of a run is, on other samples too");
  auto flags = std::make_shared<UseFlags>();
  declare_model(*command, *flags);
  declare_samples(*command, *flags);
  command->add_flag("--json", flags->json, "print one line of JSON");
  command->footer("Example: trireme eval runs/first --checkpoint best");
  command->callback([flags, program, words, &action] {
    action = hand_over(flags->run, program, words);
    if (!action) action = [flags, program] { return evaluate(*flags, program); };
  });
}

}  // namespace trireme::cli
