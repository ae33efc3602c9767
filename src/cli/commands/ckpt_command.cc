#include <memory>

#include "cli/ckpt/commands.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"

namespace trireme::cli {
namespace {

constexpr const char* kFooter = R"(
PATH is a run's folder, its checkpoints folder, or the folder of one step. Of a run, the newest complete checkpoint is meant unless --step is given.

Examples:
  trireme ckpt ls runs/my_run
  trireme ckpt show runs/my_run --step 1200
  trireme ckpt verify runs/my_run && echo sound
  trireme ckpt diff runs/a runs/b
  trireme ckpt export runs/my_run model.safetensors
  trireme ckpt export runs/my_run model.pt            for torch::load(module, "model.pt")
  trireme ckpt import model.pt runs/base              then: trireme train --init runs/base
)";

constexpr const char* kPath = "a run's folder, its checkpoints folder, or the folder of one step";

void add_choice(CLI::App& command, CkptChoice& choice) {
  command.add_option("path", choice.path, kPath)->required();
  add_number(command, "--step", choice.step, "of the checkpoint; the newest complete one unless given");
}

/// Adds a command whose options live as long as its action.
template <typename Options, typename Declare>
void add(CLI::App& ckpt, Action& action, const char* name, const char* help, const Declare& declare,
         int (*run)(const Options&)) {
  auto* command = ckpt.add_subcommand(name, help);
  auto options = std::make_shared<Options>();
  declare(*command, *options);
  command->callback([options, run, &action] { action = [options, run] { return run(*options); }; });
}

}  // namespace

void add_ckpt(CLI::App& app, Action& action) {
  auto* ckpt = app.add_subcommand("ckpt", "inspect, verify and convert checkpoints");
  ckpt->require_subcommand(1);
  ckpt->footer(kFooter);
  add<CkptListOptions>(
      *ckpt, action, "ls", "the checkpoints of a run",
      [](CLI::App& command, CkptListOptions& options) {
        command.add_option("path", options.path, kPath)->required();
        command.add_flag("--json", options.json, "a JSON list");
      },
      ckpt_list);
  add<CkptShowOptions>(
      *ckpt, action, "show", "what is in a checkpoint: meta, and tensors with their statistics",
      [](CLI::App& command, CkptShowOptions& options) {
        add_choice(command, options.choice);
        command.add_flag("--quick", options.quick, "names and shapes only: no tensor is read");
        command.add_flag("--json", options.json, "one JSON object");
      },
      ckpt_show);
  add<CkptVerifyOptions>(
      *ckpt, action, "verify", "read a whole checkpoint and compare it with its checksums; exit status 1: damaged",
      [](CLI::App& command, CkptVerifyOptions& options) {
        add_choice(command, options.choice);
        command.add_flag("--json", options.json, "one JSON object");
      },
      ckpt_verify);
  add<CkptDiffOptions>(
      *ckpt, action, "diff", "compare two checkpoints; exit status 0: identical, 1: different",
      [](CLI::App& command, CkptDiffOptions& options) {
        command.add_option("a", options.a.path, kPath)->required();
        command.add_option("b", options.b.path, "the other")->required();
        add_number(command, "--step-a", options.a.step, "step of a; the newest complete one unless given");
        add_number(command, "--step-b", options.b.step, "step of b");
        command.add_flag("--json", options.json, "one JSON object");
      },
      ckpt_diff);
  add<CkptExportOptions>(
      *ckpt, action, "export", "write the model (parameters and buffers) to a safetensors file or a torch archive",
      [](CLI::App& command, CkptExportOptions& options) {
        add_choice(command, options.choice);
        command
            .add_option("file", options.file,
                        "to write; replaced if it exists. A .pt or .pth file is for torch::load(module, file), without "
                        "the optimizer's state; any other is safetensors")
            ->required();
        command.add_flag("--all", options.all,
                         "every tensor, including the optimizer's, under full names; safetensors only");
      },
      ckpt_export);
  add<CkptImportOptions>(
      *ckpt, action, "import", "make a checkpoint from a file: a model to start from, or what export --all wrote",
      [](CLI::App& command, CkptImportOptions& options) {
        command
            .add_option("file", options.file,
                        "a .pt or .pth file that torch::save(module, file) wrote in C++, or a safetensors file")
            ->required()
            ->check(CLI::ExistingFile);
        command.add_option("run", options.run, "a run's folder, created if needed")->required();
        add_number(command, "--time-limit", options.time_limit,
                   "seconds for a torch archive, which is given up then; unless given, 60 and one for every 5 MB",
                   {.above = true});
      },
      ckpt_import);
}

}  // namespace trireme::cli
