#include "cli/flags/train_words.h"

#include "base/error.h"
#include "cli/flags/usage_problem.h"

namespace trireme::cli {

TrainFlags read_train_words(const Words& words) {
  CLI::App app("", "trireme");
  CLI::App* const command = app.add_subcommand("train");
  TrainFlags flags;
  declare(*command, flags);
  Words reversed(words.rbegin(), words.rend());  // as CLI11 wants them
  reversed.emplace_back("train");
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& problem) {
    fail<InvalidArgument>("{}", explain(app, problem));
  }
  settle(*command, flags);
  check(flags);
  return flags;
}

}  // namespace trireme::cli
