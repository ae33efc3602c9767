#include "trireme/cli/config_file.h"

#include "trireme/base/error.h"
#include "trireme/base/suggest.h"

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

/// CLI11's reader of such files, with our own word on keys that mean nothing.
class CheckedConfig final : public CLI::ConfigTOML {
 public:
  explicit CheckedConfig(const CLI::App& command) : command_(command) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    auto entries = CLI::ConfigTOML::from_config(input);
    const auto names = flag_names(command_);
    for (const CLI::ConfigItem& item : entries) {
      if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of a section's begin and end
      if (!item.parents.empty()) {
        fail<InvalidArgument>("the config file has a section '[{}]': write its keys at the top", item.parents.front());
      }
      if (std::find(names.begin(), names.end(), item.name) == names.end()) {
        fail<InvalidArgument>("the config file has a key '{}' that means nothing to '{}'{}", item.name,
                              command_.get_name(), did_you_mean(item.name, names));
      }
    }
    return entries;
  }

 private:
  const CLI::App& command_;
};

}  // namespace

void add_config_flag(CLI::App& command) {
  command.set_config("--config", "", "flags from a file, as name = value lines; those given here win");
  command.config_formatter(std::make_shared<CheckedConfig>(command));
}

}  // namespace trireme::cli
