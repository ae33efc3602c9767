#include "cli/flags/config_file.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

namespace trireme::cli {
namespace {

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (name != "help" && name != "config") names.push_back(name);
    }
  }
  return names;
}

CLI::Option& find_flag(CLI::App& command, const std::string& file, const CLI::ConfigItem& item) {
  if (!item.parents.empty()) {
    fail<InvalidArgument>("{} has a section '[{}]': write its keys at the top", file, item.parents.front());
  }
  const auto names = flag_names(command);
  if (std::find(names.begin(), names.end(), item.name) == names.end()) {
    fail<InvalidArgument>("{} has a key '{}' that is not a flag of '{}'{}", file, item.name, command.get_name(),
                          did_you_mean(item.name, names));
  }
  return *command.get_option("--" + item.name);
}

std::string read_config(const std::string& file) {
  try {
    return read_file(file);
  } catch (const IoError& problem) {
    fail<InvalidArgument>("{}", problem.what());
  }
}

/// Each line that is not empty, a comment or a section is an assignment.
void check_lines(const std::string& file, const std::string& content) {
  std::istringstream text(content);
  std::size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#' || line[begin] == '[') continue;
    if (line.find('=') == std::string::npos) {
      fail<InvalidArgument>("{}, line {}: '{}' is no line of the form name = value", file, number, line.substr(begin));
    }
  }
}

std::vector<CLI::ConfigItem> read_items(const std::string& file) {
  const std::string content = read_config(file);
  check_lines(file, content);
  std::istringstream text(content);
  auto items = CLI::ConfigTOML().from_config(text);
  std::erase_if(items, [](const CLI::ConfigItem& item) {
    return item.name == "++" || item.name == "--";  // CLI11's marks of a section's begin and end
  });
  return items;
}

}  // namespace

void add_config_flag(CLI::App& command, std::string& path) {
  command.add_option("--config", path, "flags from a file, as name = value lines; the command line wins")
      ->configurable(false);
}

std::string config_text(const CLI::App& command) {
  return command.config_to_str(/*default_also=*/true, /*write_description=*/false);
}

std::string config_value(const std::string& path, const std::string& name) {
  for (const CLI::ConfigItem& item : read_items(path)) {
    if (item.name == name && !item.inputs.empty()) return item.inputs.front();
  }
  return "";
}

void apply_config_file(CLI::App& command, const std::string& path, const std::set<std::string>& except) {
  for (const CLI::ConfigItem& item : read_items(path)) {
    CLI::Option& flag = find_flag(command, path, item);
    if (flag.count() > 0 || except.contains(item.name)) continue;  // the command line wins
    const bool no_value = flag.get_expected_max() == 0;
    flag.add_result(no_value ? std::vector{flag.get_flag_value(item.name, item.inputs.at(0))} : item.inputs);
    flag.run_callback();
  }
}

}  // namespace trireme::cli
