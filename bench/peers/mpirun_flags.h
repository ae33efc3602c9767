#pragma once

#include <string>
#include <thread>
#include <vector>

namespace trireme::bench {

/// What mpirun takes before `-n` for Open MPI's fastest all-reduce over `transport` ("shm" or "tcp") on one machine
/// with `cores`: what won in the measurements of README.md. The program then chooses the algorithm for each size.
inline std::vector<std::string> mpirun_flags(unsigned ranks, const std::string& transport,
                                             unsigned cores = std::thread::hardware_concurrency()) {
  std::vector<std::string> flags;
  const auto add = [&flags](const auto&... more) { (flags.emplace_back(more), ...); };
  add("--allow-run-as-root");                         // refuses root otherwise; in containers that is who we are
  add("--oversubscribe");                             // refuses more ranks than cores otherwise
  add("--timeout", "120");                            // seconds; MPI itself waits for ever
  add("--mca", "pml", "ob1");                         // looks for no network hardware
  add("--mca", "coll_tuned_use_dynamic_rules", "1");  // lets the program choose the algorithm
  // Open MPI's ranks never sleep: a core for each, or they must give way to each other.
  if (ranks <= cores) {
    add("--bind-to", "core");
  } else {
    add("--bind-to", "none", "--mca", "mpi_yield_when_idle", "1");
  }
  if (transport == "tcp") {
    add("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo");
  } else {
    add("--mca", "btl", "vader,self");  // with a single copy by the kernel (CMA) where that is permitted
  }
  return flags;
}

}  // namespace trireme::bench
