#include "cli/usage_problem.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/suggest.h"

namespace trireme::cli {
namespace {

/// The command that was given: `trireme ckpt ls` for its words.
struct GivenCommand {
  const CLI::App* app;
  std::string words;
};

GivenCommand given_command(const CLI::App& app) {
  GivenCommand given{&app, app.get_name()};
  while (!given.app->get_subcommands().empty()) {
    given.app = given.app->get_subcommands().back();
    given.words += " " + given.app->get_name();
  }
  return given;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// `words` are those that nobody wanted: perhaps a flag and its value.
std::string explain_extra(const GivenCommand& given, const std::vector<std::string>& words) {
  const auto flag = std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
  if (flag == words.end()) return fmt::format("'{}' does not know what to do with '{}'", given.words, words.back());
  const std::string name = flag->substr(0, flag->find('='));
  return fmt::format("'{}' has no flag {}{}", given.words, name, did_you_mean(name, flags_of(*given.app)));
}

/// What was left out: an argument that is required, or a command.
std::string explain_missing(const GivenCommand& given) {
  std::string missing;
  for (const CLI::Option* option : given.app->get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    missing += fmt::format("{}{} ({})", missing.empty() ? "" : ", ", option->get_name(), option->get_description());
  }
  if (!missing.empty()) return fmt::format("'{}' needs {}", given.words, missing);
  std::vector<std::string> names;
  for (const CLI::App* command : given.app->get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return fmt::format("'{}' needs a command: {}", given.words, fmt::join(names, ", "));
}

/// The flag that CLI11 names first in its message: "--batch: 1 required UINT missing".
const CLI::Option* flag_in(const GivenCommand& given, const std::string& message) {
  for (const CLI::Option* option : given.app->get_options()) {
    const std::string name = option->get_name();
    if (message.starts_with(name) && message.substr(name.size(), 1).find_first_of(": ") == 0) return option;
  }
  return nullptr;
}

}  // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& problem) {
  const GivenCommand given = given_command(app);
  const auto is = [&]<class Kind>(std::type_identity<Kind>) { return dynamic_cast<const Kind*>(&problem) != nullptr; };
  const std::string message = problem.what();
  std::string text = message;
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  if (is(std::type_identity<CLI::ExtrasError>()) && !extras.empty()) {
    text = explain_extra(given, extras);
  } else if (is(std::type_identity<CLI::RequiredError>())) {
    text = explain_missing(given);
  } else if (const CLI::Option* flag = flag_in(given, message);
             is(std::type_identity<CLI::ArgumentMismatch>()) && flag != nullptr) {
    text = flag->get_expected_min() == 0
               ? fmt::format("{} takes no value", flag->get_name())
               : fmt::format("{} needs a value: {}", flag->get_name(), flag->get_description());
  }
  return fmt::format("{}; see {} --help", text, given.words);
}

}  // namespace trireme::cli
