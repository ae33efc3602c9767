#include "trireme/train_main.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>

#include "trireme/model.h"
#include "trireme/task.h"

#include "app/worker.h"
#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/flags/known_names.h"
#include "cli/model/model_rules.h"
#include "cli/start/training.h"
#include "cluster/environment.h"
#include "data/task_rules.h"

namespace trireme {
namespace {

constexpr const char* kWorker = "--worker";  // what the launcher starts itself with

/// Returns those of `all` that do not come with Trireme.
std::vector<std::string> without(std::vector<std::string> all, const std::vector<std::string>& ready) {
  std::erase_if(all, [&](const std::string& name) { return std::ranges::find(ready, name) != ready.end(); });
  return all;
}

/// Under another launcher: how many take part, and how they are placed, is its business.
int work_in_a_job(const cluster::JobEnvironment& place, const cli::Words& words) {
  CLI::App app("", "program");
  cli::TrainFlags flags;
  cli::declare(app, flags);
  try {
    app.parse(cli::Words(words.rbegin(), words.rend()));
    cli::check_for_worker(app);
    flags.worker_range = std::to_string(place.initial_workers > 0 ? place.initial_workers : place.workers);
    cli::settle(app, flags);
    flags.servers = place.servers;
    cli::check_each(flags);
    app::check_own(flags, cli::load_data(flags).split.train->schema());
    app::train(flags);
    return 0;
  } catch (const CLI::ParseError& problem) {
    fmt::print(stderr, "trireme: {}\n", problem.what());
    return 2;
  }
}

int launch(const std::string& name, const cli::Words& words) {
  const std::string path = std::filesystem::read_symlink("/proc/self/exe").string();
  const cli::WorkerProgram self{.argv = {path, kWorker}, .command = name, .path = path, .check = app::check_own};
  CLI::App app("Trains its own models, and those of Trireme, on many processes.", name);
  app.require_subcommand(1);
  cli::Action action;
  cli::add_train(app, action, self);
  cli::add_resume(app, action, self, words);
  cli::add_eval(app, action, self, words);
  cli::add_predict(app, action, self, words);
  cli::add_generate(app, action, self, words);
  return cli::run_command_line(app, action, words);
}

int run(const std::string& name, cli::Words words) {
  if (!words.empty() && words.front() == kWorker) {
    app::work(std::span<const std::string>(words).subspan(1));
    return 0;
  }
  cli::set_own_names(
      {.models = without(model_names(), cli::known_models()), .tasks = without(task_names(), data::ready_tasks())});
  if (const auto place = cluster::read_environment()) return work_in_a_job(*place, words);
  if (words.empty() || words.front().starts_with('-')) words.insert(words.begin(), "train");
  return launch(name, words);
}

}  // namespace

int train_main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a lost peer is an error to handle, not a reason to die
  const std::string name = argc > 0 ? argv[0] : "program";
  try {
    return run(name, cli::Words(argv + std::min(argc, 1), argv + argc));
  } catch (const InvalidArgument& problem) {
    fmt::print(stderr, "{}: {}\n", name, problem.what());
    return 2;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "{}: {}\n", name, problem.what());
    return 1;
  }
}

}  // namespace trireme
