#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// What the parsed command line asks for; returns the exit status.
using Action = std::function<int()>;

void add_train(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_resume(CLI::App& app, Action& action);
void add_scale(CLI::App& app, Action& action);
void add_stop(CLI::App& app, Action& action);
void add_status(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_master(CLI::App& app, Action& action);
void add_ckpt(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_chaos(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_docs(CLI::App& app, Action& action);

}  // namespace trireme::cli
