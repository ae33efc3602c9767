#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/docs/completions.h"
#include "cli/docs/man_page.h"

namespace trireme::cli {

/// For the build, which installs what it writes: hidden from the help.
void add_docs(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("docs", "write the manual page, or completions for a shell")->group("");
  auto kind = std::make_shared<std::string>();
  command->add_option("kind", *kind, "man, bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"man", "bash", "zsh", "fish"}));
  command->callback([&app, kind, &action] {
    action = [&app, kind] {
      const CommandDocs docs = describe(app);
      const std::string text = *kind == "man"    ? man_page(docs)
                               : *kind == "bash" ? bash_completion(docs)
                               : *kind == "zsh"  ? zsh_completion(docs)
                                                 : fish_completion(docs);
      std::fputs(text.c_str(), stdout);
      return std::fflush(stdout) == 0 ? 0 : 1;
    };
  });
}

}  // namespace trireme::cli
