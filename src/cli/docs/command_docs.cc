#include "cli/docs/command_docs.h"

#include <sstream>

namespace trireme::cli {
namespace {

/// CLI11's "TEXT:{auto,0,1}": the values in the braces.
std::vector<std::string> choices_of(const std::string& type) {
  const auto open = type.find('{');
  const auto close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> choices;
  std::istringstream list(type.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

std::string value_of(const std::string& type) {
  const bool number = type.starts_with("UINT") || type.starts_with("INT") || type.starts_with("FLOAT");
  return number ? "N" : "TEXT";
}

FlagDocs describe(const CLI::Option& option) {
  FlagDocs docs{.help = option.get_description(), .group = option.get_group(), .required = option.get_required()};
  for (const std::string& name : option.get_snames()) docs.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) docs.names.push_back("--" + name);
  if (docs.names.empty()) docs.names.push_back(option.get_name(/*positional=*/true));
  if (option.get_items_expected_max() > 0) {
    docs.value = value_of(option.get_type_name());
    docs.choices = choices_of(option.get_type_name());
    docs.default_value = option.get_default_str();
  }
  return docs;
}

CommandDocs describe(const CLI::App& app, const std::string& name) {
  CommandDocs docs{.name = name, .help = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) docs.flags.push_back(describe(*option));
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) docs.commands.push_back(describe(*command, name + " " + command->get_name()));
  }
  return docs;
}

}  // namespace

CommandDocs describe(const CLI::App& app) { return describe(app, app.get_name()); }

std::vector<const CommandDocs*> all_commands(const CommandDocs& top) {
  std::vector<const CommandDocs*> all{&top};
  for (const CommandDocs& command : top.commands) {
    const auto below = all_commands(command);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace trireme::cli
