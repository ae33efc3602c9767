#include <memory>

#include <fmt/format.h>

#include "trireme/checkpoint/convert.h"
#include "trireme/cli/bench_report.h"
#include "trireme/cli/ckpt.h"
#include "trireme/cli/commands.h"

namespace trireme::cli {
namespace {

constexpr const char* kFooter = R"(
PATH is a run's folder, its checkpoints folder, or the folder of one step. Of a run, the newest checkpoint that is
complete counts unless --step says another.

Examples:
  trireme ckpt ls runs/my_run
  trireme ckpt show runs/my_run --step 1200
  trireme ckpt verify runs/my_run && echo sound
  trireme ckpt diff runs/a runs/b
  trireme ckpt export runs/my_run model.safetensors
)";

constexpr const char* kPath = "a run's folder, its checkpoints folder, or a step in there";

void add_choice(CLI::App& command, CkptChoice& choice) {
  command.add_option("path", choice.path, kPath)->required();
  command.add_option("--step", choice.step, "this one; the newest complete one unless given");
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

struct ExportFlags {
  CkptChoice choice;
  std::string file;
  checkpoint::ExportOptions options;
};

struct ImportFlags {
  std::string file;
  std::string run;
};

int export_one(const ExportFlags& flags) {
  const auto opened = checkpoint::Checkpoint::open(choose(flags.choice));
  const auto report = checkpoint::export_safetensors(opened, flags.file, flags.options);
  fmt::print("{}: {} tensors of step {}, {}\n", flags.file, report.tensors, opened.step(), as_size(report.bytes));
  return 0;
}

int import_one(const ImportFlags& flags) {
  const auto folder = std::filesystem::path(flags.run) / "checkpoints";
  const auto report = checkpoint::import_safetensors(flags.file, folder);
  fmt::print("{}: {} tensors, {}\n", folder.string(), report.tensors, as_size(report.bytes));
  return 0;
}

}  // namespace

void add_ckpt(CLI::App& app, Action& action) {
  auto* ckpt = app.add_subcommand("ckpt", "look at checkpoints, check them, and turn them into other files");
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
      *ckpt, action, "show", "what is in a checkpoint: meta, tensors, and what they are like",
      [](CLI::App& command, CkptShowOptions& options) {
        add_choice(command, options.choice);
        command.add_flag("--quick", options.quick, "names and shapes only: no tensor is read");
        command.add_flag("--json", options.json, "one JSON object");
      },
      ckpt_show);
  add<CkptVerifyOptions>(
      *ckpt, action, "verify", "read all of a checkpoint and compare with its checksums; exit status 1: damaged",
      [](CLI::App& command, CkptVerifyOptions& options) {
        add_choice(command, options.choice);
        command.add_flag("--json", options.json, "one JSON object");
      },
      ckpt_verify);
  add<CkptDiffOptions>(
      *ckpt, action, "diff", "in what two checkpoints differ; exit status 0: in nothing, 1: in something",
      [](CLI::App& command, CkptDiffOptions& options) {
        command.add_option("a", options.a.path, kPath)->required();
        command.add_option("b", options.b.path, "the other")->required();
        command.add_option("--step-a", options.a.step, "this one of a; the newest complete one unless given");
        command.add_option("--step-b", options.b.step, "this one of b");
        command.add_flag("--json", options.json, "one JSON object");
      },
      ckpt_diff);
  add<ExportFlags>(
      *ckpt, action, "export", "write the model (parameters and buffers) to a safetensors file",
      [](CLI::App& command, ExportFlags& flags) {
        add_choice(command, flags.choice);
        command.add_option("file", flags.file, "to write; replaced if it is there")->required();
        command.add_flag("--all", flags.options.all, "every tensor, the optimizer's too, under whole names");
      },
      export_one);
  add<ImportFlags>(
      *ckpt, action, "import",
      "make a checkpoint of a safetensors file: a model to begin from, or all that --all wrote",
      [](CLI::App& command, ImportFlags& flags) {
        command.add_option("file", flags.file, "a safetensors file")->required()->check(CLI::ExistingFile);
        command.add_option("run", flags.run, "a run's folder, made if need be")->required();
      },
      import_one);
}

}  // namespace trireme::cli
