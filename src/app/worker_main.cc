// The workers of `trireme train`, and of `eval`, `predict` and `generate`: started by it.
#include <csignal>
#include <cstdio>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include "app/worker.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    trireme::app::work(std::vector<std::string>(argv + 1, argv + argc));
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "trireme-worker: {}\n", problem.what());
    return 1;
  }
}
