// The workers of `trireme train --backend mpi`: as worker_main.cc, with the engine of MPI.
#include <csignal>
#include <cstdio>
#include <exception>
#include <vector>

#include <fmt/format.h>

#include "trireme/mpi.h"

#include "app/worker.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  trireme::use_mpi();
  try {
    trireme::app::work(std::vector<std::string>(argv + 1, argv + argc));
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "trireme-mpi-worker: {}\n", problem.what());
    return 1;
  }
}
