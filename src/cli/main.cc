#include <csignal>

#include <CLI/CLI.hpp>

#include "trireme/version.h"

#include "cli/commands/commands.h"
#include "cli/start/training.h"

namespace {

constexpr const char* kFooter = R"(
First steps:
  trireme train --epochs 2                      LeNet on Fashion-MNIST, 2 workers, 1 server
  trireme train --data synthetic --epochs 1     the same on generated data
  trireme resume runs/first                     continue a run that was stopped or killed
  trireme dash runs                             a page of all runs; also top, log, plot, stacks, timeline in the terminal
  trireme predict runs/first rows.csv           what its model says of other samples; also eval, generate
  trireme run -w 2 -s 1 -- ./my_program         a program of yours as the workers
  trireme ckpt ls runs/my_run                   the checkpoints of a run; also show, verify, diff, export, import
  trireme plan --model gpt2-xl -w 64 --memory 24gb   how to divide a model; also draws pipeline schedules
  trireme tune --space lr=log:1e-4:1e-1 --steps 900  which flags train best: several trainings side by side
  trireme chaos --strategy allreduce -w 4       kill workers during training and check that the result is the same
  trireme train --help                          all flags; they can also come from a file: --config run.toml
)";

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a lost peer is an error to handle, not a reason to die
  CLI::App app("Trireme trains neural networks on many processes and machines.", "trireme");
  app.set_version_flag("--version", TRIREME_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  const trireme::cli::Words words(argv + 1, argv + argc);
  const trireme::cli::WorkerProgram worker;
  trireme::cli::Action action;
  trireme::cli::add_train(app, action, worker);
  trireme::cli::add_resume(app, action, worker, words);
  trireme::cli::add_eval(app, action, worker, words);
  trireme::cli::add_predict(app, action, worker, words);
  trireme::cli::add_generate(app, action, worker, words);
  trireme::cli::add_run(app, action);
  trireme::cli::add_status(app, action);
  trireme::cli::add_dash(app, action);
  trireme::cli::add_top(app, action);
  trireme::cli::add_log(app, action);
  trireme::cli::add_plot(app, action);
  trireme::cli::add_stacks(app, action);
  trireme::cli::add_timeline(app, action);
  trireme::cli::add_scale(app, action);
  trireme::cli::add_checkpoint_now(app, action);
  trireme::cli::add_stop(app, action);
  trireme::cli::add_serve(app, action);
  trireme::cli::add_master(app, action);
  trireme::cli::add_ckpt(app, action);
  trireme::cli::add_data(app, action);
  trireme::cli::add_plan(app, action);
  trireme::cli::add_chaos(app, action);
  trireme::cli::add_tune(app, action);
  trireme::cli::add_bench(app, action);
  trireme::cli::add_env(app, action);
  trireme::cli::add_k8s(app, action);
  trireme::cli::add_carry(app, action);
  trireme::cli::add_agent(app, action);
  trireme::cli::add_docs(app, action);
  return trireme::cli::run_command_line(app, action, words);
}
