#include "cli/flags/usage_problem.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
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

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());  // else it is not for people
  }
  return names;
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
  return fmt::format("'{}' needs a command: {}", given.words, fmt::join(commands_of(*given.app), ", "));
}

/// The flag that CLI11 names first in its message: "--batch: 1 required UINT missing".
const CLI::Option* flag_in(const GivenCommand& given, const std::string& message) {
  for (const CLI::Option* option : given.app->get_options()) {
    const std::string name = option->get_name();
    if (message.starts_with(name) && message.substr(name.size(), 1).find_first_of(": ") == 0) return option;
  }
  return nullptr;
}

/// What CLI11 says of a value that does not fit, "--replicas: 7 not in {auto,0,1}", in our words.
std::string explain_value(const CLI::Option& option, const std::string& message) {
  const std::string what = message.substr(std::min(message.size(), option.get_name().size() + 2));
  if (const std::size_t middle = what.find(" not in {"); middle != std::string::npos && what.ends_with('}')) {
    std::string allowed = what.substr(middle + 9, what.size() - middle - 10);
    for (std::size_t comma = 0; (comma = allowed.find(',', comma)) != std::string::npos; comma += 2) {
      allowed.replace(comma, 1, ", ");
    }
    return fmt::format("{} {}: use {}", option.get_name(), what.substr(0, middle), allowed);
  }
  for (const auto& [theirs, ours] :
       {std::pair("File does not exist: ", "file"), {"Directory does not exist: ", "folder"}}) {
    if (what.starts_with(theirs)) {
      return fmt::format("{}: there is no {} {}", option.get_name(), ours,
                         what.substr(std::string_view(theirs).size()));
    }
  }
  return message;
}

/// What could not be read as a number, or what else the flag takes: "Could not convert: --ranks = x".
std::string explain_conversion(const GivenCommand& given, const std::string& message) {
  constexpr std::string_view kTheirs = "Could not convert: ";
  if (!message.starts_with(kTheirs)) return message;
  const std::string rest = message.substr(kTheirs.size());
  const CLI::Option* flag = flag_in(given, rest);
  const std::size_t value = rest.find(" = ");
  if (flag == nullptr || value == std::string::npos) return message;
  return fmt::format("{} {}: that is no value for it: {}", flag->get_name(), rest.substr(value + 3),
                     flag->get_description());
}

}  // namespace

void check_command(const CLI::App& app, std::span<const std::string> words) {
  if (words.empty() || words[0].starts_with('-')) return;
  const std::string& word = words[0];
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == word) return check_command(*command, words.subspan(1));
  }
  const std::vector<std::string> names = commands_of(app);
  if (names.empty()) return;
  const CLI::App* const parent = app.get_parent();
  const std::string inside = parent == nullptr ? app.get_name() : parent->get_name() + " " + app.get_name();
  fail<InvalidArgument>("there is no command '{}'{}: use {}; see {} --help", word, did_you_mean(word, names),
                        fmt::join(names, ", "), inside);
}

std::string explain(const CLI::App& app, const CLI::ParseError& problem) {
  const GivenCommand given = given_command(app);
  const std::string message = problem.what();
  std::string text = message;
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  const bool surplus = dynamic_cast<const CLI::ExtrasError*>(&problem) != nullptr;
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&problem) != nullptr;
  if ((surplus || missing) && !extras.empty()) {  // a flag that does not exist, rather than what is missing after it
    text = explain_extra(given, extras);
  } else if (missing) {
    text = explain_missing(given);
  } else if (const CLI::Option* flag = flag_in(given, message);
             dynamic_cast<const CLI::ArgumentMismatch*>(&problem) != nullptr && flag != nullptr) {
    text = flag->get_expected_min() == 0 ? fmt::format("{} takes no value", flag->get_name())
           : flag->count() > 1           ? fmt::format("{} was given {} times", flag->get_name(), flag->count())
                               : fmt::format("{} needs a value: {}", flag->get_name(), flag->get_description());
  } else if (dynamic_cast<const CLI::ValidationError*>(&problem) != nullptr && flag != nullptr) {
    text = explain_value(*flag, message);
  } else if (dynamic_cast<const CLI::ConversionError*>(&problem) != nullptr) {
    text = explain_conversion(given, message);
  }
  return fmt::format("{}; see {} --help", text, given.words);
}

}  // namespace trireme::cli
