// One rank of the all-reduce benchmark for Open MPI, started by mpirun with the flags of mpirun_flags.h:
//
//   allreduce_openmpi --bytes 4096,1048576 --transport shm [--settings best|default] [--verbose yes]
//
// `best` measures Open MPI's own algorithms for each size and takes the fastest; `default` leaves it alone.

#include <mpi.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/peers/arguments.h"
#include "bench/peers/fastest.h"
#include "bench/peers/large_buffer.h"
#include "bench/peers/measure.h"

namespace trireme::bench {
namespace {

/// Sets one of Open MPI's parameters for communicators made from now on. Throws std::runtime_error where this build of
/// Open MPI does not have it.
void set_parameter(const std::string& name, int value) {
  int index = 0;
  int count = 0;
  MPI_T_cvar_handle handle = nullptr;
  if (MPI_T_cvar_get_index(name.c_str(), &index) != MPI_SUCCESS ||
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS ||
      MPI_T_cvar_write(handle, &value) != MPI_SUCCESS) {
    throw std::runtime_error("this Open MPI cannot set " + name +
                             ": it has no component coll/tuned, or another version; try --settings default");
  }
  MPI_T_cvar_handle_free(&handle);
}

/// A setting of Open MPI's component coll/tuned.
struct Algorithm {
  const char* name;
  int number;   ///< of coll_tuned_allreduce_algorithm
  int segment;  ///< bytes
};

/// The ones that won somewhere (README.md has the figures); the first is what Open MPI does by itself.
constexpr Algorithm kAlgorithms[] = {
    {"default", 0, 0},
    {"linear", 1, 0},
    {"recursive doubling", 3, 0},
    {"segmented ring, 1 MiB", 5, 1 << 20},
    {"segmented ring, 4 MiB", 5, 4 << 20},
};

// Errors of MPI calls end all ranks (MPI_ERRORS_ARE_FATAL, the default): there is nothing to check here.
class OpenMpi final : public AllReducer {
 public:
  OpenMpi(bool choose, bool verbose) : verbose_(verbose) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    if (!choose) return;
    int provided = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    for (const Algorithm& algorithm : kAlgorithms) {
      set_parameter("coll_tuned_allreduce_algorithm", algorithm.number);
      set_parameter("coll_tuned_allreduce_algorithm_segmentsize", algorithm.segment);
      MPI_Comm communicator = MPI_COMM_NULL;  // keeps the algorithm it is made with; MPI_Finalize frees it
      MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
      candidates_.push_back({algorithm.name, [this, communicator] { communicator_ = communicator; }});
    }
  }

  unsigned rank() const override { return static_cast<unsigned>(rank_); }
  unsigned ranks() const override { return static_cast<unsigned>(ranks_); }

  std::span<float> prepare(std::size_t elements) override {
    buffer_ = LargeBuffer(elements);
    if (!candidates_.empty()) use_fastest(*this, buffer_.span(), candidates_, verbose_);
    return buffer_.span();
  }

  void all_reduce() override {
    const auto data = buffer_.span();
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, communicator_);
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  double max(double value) override {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }

 private:
  bool verbose_;
  int rank_ = 0;
  int ranks_ = 0;
  std::vector<Candidate> candidates_;  // one for each algorithm; none: left alone
  MPI_Comm communicator_ = MPI_COMM_WORLD;
  LargeBuffer buffer_;
};

void run(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  OpenMpi library(arguments.choice("--settings", {"best", "default"}) == "best",
                  arguments.choice("--verbose", {"no", "yes"}) == "yes");
  measure_sizes(library, "openmpi", arguments.choice("--transport", {"shm", "tcp"}), arguments.sizes("--bytes"),
                std::cout);
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    trireme::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce_openmpi: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
