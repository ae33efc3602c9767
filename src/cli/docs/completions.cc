#include "cli/docs/completions.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme::cli {
namespace {

/// `text` with a backslash before each of `special`.
std::string escaped(const std::string& text, const std::string& special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

/// `text` in single quotes, for shells in which no backslash works inside them.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::vector<std::string> flag_names(const CommandDocs& command) {
  std::vector<std::string> names;
  for (const FlagDocs& flag : command.flags) {
    if (!flag.positional()) names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

std::vector<std::string> subcommand_names(const CommandDocs& command) {
  std::vector<std::string> names;
  for (const CommandDocs& below : command.commands) names.push_back(below.last_name());
  return names;
}

/// Patterns of a shell's `case` for "command flag", over all commands.
struct FlagPatterns {
  std::vector<std::string> free;                                          ///< takes any value
  std::vector<std::pair<std::string, std::vector<std::string>>> choices;  ///< takes one of these
};

FlagPatterns flag_patterns(const CommandDocs& top) {
  FlagPatterns patterns;
  for (const CommandDocs* command : all_commands(top)) {
    for (const FlagDocs& flag : command->flags) {
      if (flag.positional() || flag.value.empty()) continue;
      for (const std::string& name : flag.names) {
        const std::string pattern = fmt::format("'{} {}'", command->name, name);
        if (flag.choices.empty()) {
          patterns.free.push_back(pattern);
        } else {
          patterns.choices.emplace_back(pattern, flag.choices);
        }
      }
    }
  }
  return patterns;
}

}  // namespace

std::string bash_completion(const CommandDocs& top) {
  std::string commands;
  std::string words;
  for (const CommandDocs* command : all_commands(top)) {
    if (command != &top) commands += fmt::format("{}'{}'", commands.empty() ? "" : " | ", command->name);
    words += fmt::format("    '{}') words='{}' flags='{}' ;;\n", command->name,
                         fmt::join(subcommand_names(*command), " "), fmt::join(flag_names(*command), " "));
  }
  const FlagPatterns patterns = flag_patterns(top);
  std::string values = fmt::format("    {}) return ;;\n", fmt::join(patterns.free, " | "));
  for (const auto& [pattern, choices] : patterns.choices) {
    values += fmt::format("    {}) words='{}' ;;\n", pattern, fmt::join(choices, " "));
  }
  return fmt::format(R"(# bash completion for {name}; written by `{name} docs bash`.
_{name}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command={name} words= flags= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    [[ $word != -- ]] || return  # what follows is another program's
    case "$command $word" in
    {commands}) command+=" $word" ;;
    esac
  done
  case "$command $previous" in
{values}  esac
  [[ $words ]] || case $command in
{words}  esac
  [[ $current != -* ]] || words=$flags
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _{name} {name}  # file names where none of ours fits
)",
                     fmt::arg("name", top.name), fmt::arg("commands", commands), fmt::arg("values", values),
                     fmt::arg("words", words));
}

namespace {

/// Argument of zsh's `_arguments` for a flag: '(-w --workers)'{-w,--workers}'[help]:value:_files'.
std::string zsh_flag(const FlagDocs& flag) {
  std::string action;
  if (!flag.value.empty()) {
    action = !flag.choices.empty() ? fmt::format(":{}:({})", flag.value, fmt::join(flag.choices, " "))
             : flag.number()       ? fmt::format(":{}:", flag.value)
                                   : fmt::format(":{}:_files", flag.value);
  }
  const std::string help = "[" + escaped(flag.help, "\\[]:") + "]" + action;
  if (flag.positional())
    return quoted(fmt::format("{}:{}:_files", flag.required ? "" : ":", escaped(flag.names[0], ":")));
  if (flag.names.size() == 1) return quoted(flag.names[0] + help);
  return fmt::format("'({})'{{{}}}{}", fmt::join(flag.names, " "), fmt::join(flag.names, ","), quoted(help));
}

std::string function_name(const CommandDocs& command) {
  std::string name = "_" + command.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

/// A function that completes the words after the command's own name.
std::string zsh_function(const CommandDocs& command) {
  std::string text = fmt::format(
      "{}() {{\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
      "  _arguments -C",
      function_name(command));
  for (const FlagDocs& flag : command.flags) text += " \\\n    " + zsh_flag(flag);
  if (command.commands.empty()) return text + "\n}\n\n";
  std::string described;
  std::string calls;
  for (const CommandDocs& below : command.commands) {
    described += fmt::format(" {}", quoted(below.last_name() + ":" + escaped(below.help, "\\:")));
    calls += fmt::format("        {}) {} ;;\n", below.last_name(), function_name(below));
  }
  text += fmt::format(R"( \
    '1: :->command' '*:: :->words'
  case $state in
    command)
      local -a commands=({})
      _describe command commands ;;
    words)
      case $line[1] in
{}      esac ;;
  esac
}}

)",
                      described.substr(1), calls);
  return text;
}

}  // namespace

std::string zsh_completion(const CommandDocs& top) {
  std::string text = fmt::format("#compdef {0}\n# Written by `{0} docs zsh`.\n\n", top.name);
  for (const CommandDocs* command : all_commands(top)) text += zsh_function(*command);
  return text + fmt::format("_{} \"$@\"\n", top.name);
}

namespace {

std::string fish_flag(const std::string& start, const FlagDocs& flag) {
  std::string line = start;
  for (const std::string& name : flag.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!flag.choices.empty()) {
    line += fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
  } else if (!flag.value.empty()) {
    line += flag.number() ? " -x" : " -r";
  }
  return line + fmt::format(" -d '{}'\n", escaped(flag.help, "\\'"));
}

}  // namespace

std::string fish_completion(const CommandDocs& top) {
  std::string names;
  std::string lines;
  for (const CommandDocs* command : all_commands(top)) {
    if (command != &top) names += fmt::format(" '{}'", command->name);
    const std::string start = fmt::format("complete -c {} -n '__{}_command {}'", top.name, top.name, command->name);
    for (const CommandDocs& below : command->commands) {
      lines += fmt::format("{} -f -a {} -d '{}'\n", start, below.last_name(), escaped(below.help, "\\'"));
    }
    for (const FlagDocs& flag : command->flags) {
      if (!flag.positional()) lines += fish_flag(start, flag);
    }
  }
  return fmt::format(R"(# fish completion for {name}; written by `{name} docs fish`.
function __{name}_command
  set -l command {name}
  for word in (commandline -opc)
    if contains -- "$command $word"{names}
      set command "$command $word"
    end
  end
  test "$command" = "$argv"
end
{lines})",
                     fmt::arg("name", top.name), fmt::arg("names", names), fmt::arg("lines", lines));
}

}  // namespace trireme::cli
