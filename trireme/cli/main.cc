#include <algorithm>
#include <csignal>
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "trireme/base/error.h"
#include "trireme/base/suggest.h"
#include "trireme/cli/commands.h"

namespace {

constexpr const char* kFooter = R"(
First steps:
  trireme train --epochs 2                      LeNet on Fashion-MNIST, 2 workers, 1 server
  trireme train --data synthetic --epochs 1     the same on generated data
  trireme run -w 2 -s 1 -- ./my_program         the same cluster around a program of yours
  trireme train --help                          all flags; they can also stand in a file: --config run.toml
)";

/// CLI11 would say no more than that a command is missing.
void check_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (word.starts_with("-") || std::find(names.begin(), names.end(), word) != names.end()) return;
  trireme::fail<trireme::InvalidArgument>("there is no command '{}'{}: use {}; see trireme --help", word,
                                          trireme::did_you_mean(word, names), fmt::join(names, ", "));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a peer that goes is an error to handle, not a reason to die
  CLI::App app("Trireme trains neural networks on many processes and machines.", "trireme");
  app.set_version_flag("--version", TRIREME_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  trireme::cli::Action action;
  trireme::cli::add_train(app, action);
  trireme::cli::add_run(app, action);
  trireme::cli::add_scale(app, action);
  trireme::cli::add_serve(app, action);
  trireme::cli::add_master(app, action);
  trireme::cli::add_bench(app, action);
  try {
    if (argc > 1) check_command(app, argv[1]);
    app.parse(argc, argv);
    return action();
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : 2;
  } catch (const trireme::InvalidArgument& problem) {
    fmt::print(stderr, "trireme: {}\n", problem.what());
    return 2;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "trireme: {}\n", problem.what());
    return 1;
  }
}
