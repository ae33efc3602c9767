// A rank: all ranks run the same tests in the same order; any failure on any of them fails the run.
#include <mpi.h>

#include <cstring>
#include <iostream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "collective/mpi/mpi_backend.h"
#include "tests/collective/mpi/ranks.h"

namespace trireme::collective {
namespace {

std::unique_ptr<Communicator> everybody;

}  // namespace

Communicator& all_ranks() { return *everybody; }

void barrier_without_communicator() { MPI_Barrier(MPI_COMM_WORLD); }

}  // namespace trireme::collective

int main(int argc, char** argv) {
  using namespace trireme;
  const bool without_threads = argc > 1 && std::strcmp(argv[1], "--begin-without-threads") == 0;
  if (without_threads) MPI_Init(&argc, &argv);
  try {
    collective::everybody = std::make_unique<collective::Communicator>(collective::make_mpi_backend());
  } catch (const InvalidArgument& problem) {
    std::cerr << problem.what() << "\n";
    if (without_threads) MPI_Finalize();
    return 2;
  }
  if (collective::all_ranks().rank() > 0) GTEST_FLAG_SET(brief, true);  // of what goes well, one account is enough
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  collective::everybody.reset();
  return failed;
}
