#include "cli/commands/commands.h"
#include "cli/data/get.h"
#include "cli/data/inspect.h"
#include "cli/data/split.h"
#include "cli/data/tokenize.h"

namespace trireme::cli {

void add_data(CLI::App& app, Action& action) {
  auto* data = app.add_subcommand("data", "fetch, look into and prepare data");
  data->require_subcommand(1);
  declare_data_get(*data, action);
  declare_data_inspect(*data, action);
  declare_data_split(*data, action);
  declare_data_tokenize(*data, action);
}

}  // namespace trireme::cli
