#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/flags/usage_problem.h"

namespace trireme::cli {

int run_command_line(CLI::App& app, Action& action, const Words& words) {
  try {
    check_command(app, words);
    Words reversed(words.rbegin(), words.rend());  // as CLI11 wants them
    app.parse(std::move(reversed));
    return action();
  } catch (const CLI::Success& asked) {  // for help, or the version
    return app.exit(asked);
  } catch (const CLI::ParseError& problem) {
    fmt::print(stderr, "trireme: {}\n", explain(app, problem));
    return 2;
  } catch (const InvalidArgument& problem) {
    fmt::print(stderr, "trireme: {}\n", problem.what());
    return 2;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "trireme: {}\n", problem.what());
    return 1;
  }
}

}  // namespace trireme::cli
