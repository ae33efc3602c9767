#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace trireme::cli {

struct WorkerProgram;

/// What the parsed command line asks for; returns the exit status.
using Action = std::function<int()>;

/// A command line, without the program's name.
using Words = std::vector<std::string>;

// Those that a program with train_main has too, for its own models; `words` are all that it was started with.
void add_train(CLI::App& app, Action& action, const WorkerProgram& program);
void add_resume(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words);
void add_eval(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words);
void add_predict(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words);
void add_generate(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words);

void add_run(CLI::App& app, Action& action);
void add_scale(CLI::App& app, Action& action);
void add_stop(CLI::App& app, Action& action);
void add_checkpoint_now(CLI::App& app, Action& action);
void add_status(CLI::App& app, Action& action);
void add_dash(CLI::App& app, Action& action);
void add_top(CLI::App& app, Action& action);
void add_log(CLI::App& app, Action& action);
void add_plot(CLI::App& app, Action& action);
void add_stacks(CLI::App& app, Action& action);
void add_timeline(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_master(CLI::App& app, Action& action);
void add_ckpt(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_chaos(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_k8s(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_docs(CLI::App& app, Action& action);
void add_env(CLI::App& app, Action& action);
void add_carry(CLI::App& app, Action& action);
void add_agent(CLI::App& app, Action& action);

/// Reads the command line `words` with `app`, whose commands set `action`, and does it. What is wrong with it, and
/// failures, are told on standard error. Returns the exit status.
int run_command_line(CLI::App& app, Action& action, const Words& words);

}  // namespace trireme::cli
