#include "cli/docs/man_page.h"

#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/version.h"

namespace trireme::cli {
namespace {

/// `text` such that troff prints it as it is.
std::string troff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool line_begins = result.empty() || result.back() == '\n';
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + troff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + troff(text) + "\\fR"; }

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string value_text(const FlagDocs& flag) {
  if (flag.choices.empty()) return italic(flag.value);
  std::vector<std::string> choices;
  for (const std::string& choice : flag.choices) choices.push_back(bold(choice));
  return fmt::format("{}", fmt::join(choices, "|"));
}

std::string flag_entry(const FlagDocs& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) names.push_back(flag.positional() ? italic(upper(name)) : bold(name));
  std::string entry = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!flag.positional() && !flag.value.empty()) entry += " " + value_text(flag);
  entry += "\n" + troff(flag.help);
  if (!flag.default_value.empty()) entry += fmt::format(" (default: {})", bold(flag.default_value));
  return entry + "\n";
}

/// Flags under the headings of the help, those of the first heading without one.
std::string flag_list(const CommandDocs& command) {
  std::string text;
  std::string group = command.flags.empty() ? "" : command.flags.front().group;
  for (const FlagDocs& flag : command.flags) {
    if (!flag.positional() && flag.group != group) text += fmt::format(".PP\n{}:\n", troff(group = flag.group));
    text += flag_entry(flag);
  }
  return text;
}

std::string synopsis(const CommandDocs& command) {
  std::string line = bold(command.name);
  bool flags = false;
  for (const FlagDocs& flag : command.flags) flags = flags || !flag.positional();
  if (flags) line += " [" + italic("flags") + "]";
  for (const FlagDocs& flag : command.flags) {
    if (flag.positional())
      line += flag.required ? " " + italic(upper(flag.names[0])) : " [" + italic(upper(flag.names[0])) + "]";
  }
  return line;
}

std::string literal(const std::string& text) {
  if (text.empty()) return "";
  const auto first = text.find_first_not_of('\n');
  const auto last = text.find_last_not_of('\n');
  return fmt::format(".PP\n.nf\n{}\n.fi\n", troff(text.substr(first, last + 1 - first)));
}

}  // namespace

std::string man_page(const CommandDocs& top) {
  std::string page = fmt::format(".TH {} 1 \"\" \"Trireme {}\"\n.nh\n.ad l\n", upper(top.name), troff(TRIREME_VERSION));
  page += fmt::format(".SH NAME\n{} \\- distributed training of neural networks\n", top.name);
  page += ".SH SYNOPSIS\n";
  for (const CommandDocs* command : all_commands(top)) {
    if (command->commands.empty()) page += synopsis(*command) + "\n.br\n";
  }
  page += fmt::format("{}\n.SH DESCRIPTION\n{}\n", synopsis(top), troff(top.help));
  page += ".SH OPTIONS\n" + flag_list(top);
  page += ".SH COMMANDS\n";
  for (const CommandDocs* command : all_commands(top)) {
    if (command == &top) continue;
    page += fmt::format(".SS {}\n{}\n{}{}", troff(command->name), troff(command->help), flag_list(*command),
                        literal(command->footer));
  }
  page += ".SH EXIT STATUS\n.TP\n.B 0\nSuccess.\n.TP\n.B 1\nIt failed, and says why.\n";
  page += ".TP\n.B 2\nThe command line, or what it asks for, is invalid.\n";
  page += ".PP\nA job returns the worst status of its processes: 128 + n for one that was killed by signal n.\n";
  page += ".SH EXAMPLES\n" + literal(top.footer);
  return page;
}

}  // namespace trireme::cli
