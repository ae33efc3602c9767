#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "cluster/environment.h"
#include "cluster/launched_place.h"
#include "observe/table.h"

namespace trireme::cli {
namespace {

struct EnvFlags {
  std::string file;
  std::uint32_t servers = 1;
  std::uint32_t servers_per_host = 0;
  bool json = false;
};

/// "NAME=value" lines, as `env` writes them.
cluster::Variables read_recorded(const std::string& path) {
  cluster::Variables variables;
  std::string text;
  try {
    text = read_file(path);
  } catch (const IoError& problem) {
    fail<InvalidArgument>("--file {}: {}", path, problem.what());
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (const auto equals = line.find('='); equals != std::string::npos && line.front() != '#') {
      variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
    begin = end + 1;
  }
  return variables;
}

/// What a process with these variables would do.
std::vector<std::string> plan_lines(const cluster::Resolution& found, const cluster::Variables& variables,
                                    const EnvFlags& flags) {
  if (!found.launcher) return {"alone: 'trireme train' and 'trireme run' start all processes themselves, on this host"};
  if (found.place) {
    cluster::StartWish wish = cluster::read_start_wish(variables);
    wish.servers = flags.servers;
    wish.servers_per_host = flags.servers_per_host;
    return cluster::plan_start(*found.place, wish).reasons;
  }
  const auto place = cluster::read_environment([&](const char* name) -> const char* {
    const auto entry = variables.find(name);
    return entry == variables.end() ? nullptr : entry->second.c_str();
  });
  if (!place) return {};
  return {fmt::format("{} {} of {} workers and {} servers", to_string(place->role), place->rank, place->workers,
                      place->servers),
          place->master.port == 0 ? fmt::format("the master is found through {}", place->store)
                                  : fmt::format("the master is at {}: {}", place->master.text(),
                                                place->hosts_master ? "here" : "elsewhere")};
}

int show_environment(const EnvFlags& flags) {
  const cluster::Variables variables = flags.file.empty() ? cluster::own_variables() : read_recorded(flags.file);
  const cluster::Resolution found = cluster::resolve(variables);
  const std::vector<std::string> plan = plan_lines(found, variables, flags);
  const std::string launcher = found.launcher ? to_string(*found.launcher) : "nobody";
  if (flags.json) {
    nlohmann::json line{{"launcher", launcher}, {"plan", plan}, {"found", nlohmann::json::array()}};
    for (const cluster::LauncherFinding& finding : found.findings) {
      line["found"].push_back(
          {{"launcher", to_string(finding.launcher)}, {"taken", finding.taken}, {"reason", finding.reason}});
    }
    fmt::print("{}\n", line.dump());
    return 0;
  }
  fmt::print("started by: {}\n", launcher);
  for (const std::string& line : plan) fmt::print("  {}\n", line);
  if (found.findings.empty()) return 0;
  fmt::print("found, in the order of precedence:\n");
  observe::TableCells cells;
  for (const cluster::LauncherFinding& finding : found.findings) {
    cells.push_back({" ", to_string(finding.launcher), finding.taken ? "taken" : "not taken", finding.reason});
  }
  fmt::print("{}", observe::aligned(cells, {false, false, false, false}));
  return 0;
}

}  // namespace

void add_env(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "env", "say which launcher has started this process (mpirun, srun, torchrun, …), and what its place is");
  auto flags = std::make_shared<EnvFlags>();
  command->add_option("--file", flags->file, "a recorded environment instead of this process's: lines of NAME=value");
  add_number(*command, "--servers", flags->servers, "as 'trireme train' would be given")->capture_default_str();
  add_number(*command, "--servers-per-host", flags->servers_per_host, "likewise");
  command->add_flag("--json", flags->json, "one line of JSON");
  command->footer("Example: mpirun -np 4 trireme env");
  command->callback([flags, &action] { action = [flags] { return show_environment(*flags); }; });
}

}  // namespace trireme::cli
