// Collectives without LibTorch: every process contributes, all get the sum.
//
//   trireme run -w 4 -s 0 -- ./all_reduce     four processes on this machine; the launcher tells them of each other
//
// or by addresses, without a launcher, on one machine or several (the same secret everywhere):
//
//   SECRET=$(head -c 32 /dev/urandom | base64)
//   ./all_reduce 0 127.0.0.1:4801,127.0.0.1:4802 $SECRET & ./all_reduce 1 127.0.0.1:4801,127.0.0.1:4802 $SECRET
#include <trireme/collective.h>
#include <trireme/job.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace collective = trireme::collective;

void sum_up(collective::Communicator& ranks) {
  std::vector<float> values(1000, static_cast<float>(ranks.rank() + 1));
  ranks.run(collective::all_reduce(std::span(values)));
  std::printf("rank %u of %u over %s: the sum is %g\n", ranks.rank(), ranks.size(), ranks.transport().c_str(),
              values[0]);
}

int main(int argc, char** argv) try {
  if (argc == 4) {
    collective::ConnectOptions options{.rank = static_cast<trireme::Rank>(std::stoul(argv[1])), .secret = argv[3]};
    std::istringstream list(argv[2]);
    for (std::string address; std::getline(list, address, ',');) options.addresses.push_back(address);
    sum_up(*collective::connect(options));
  } else {
    const auto job = trireme::Job::join();
    sum_up(job->ranks());
    job->leave();
  }
} catch (const std::exception& problem) {
  std::fprintf(stderr, "all_reduce: %s\n", problem.what());
  return 1;
}
