#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "trireme/collective.h"

#include "base/wait_board.h"
#include "collective/backend.h"
#include "collective/native/endpoint.h"
#include "net/address.h"

namespace trireme::collective {

struct CommunicatorOptions {
  Rank rank = 0;
  View view = 1;
  std::vector<net::Address> members;  ///< the endpoints of all ranks, in order; one = alone
  std::string group = "all";          ///< distinguishes groups of one view; the same on all their members
  net::Transport transport = net::Transport::kAuto;
  std::chrono::milliseconds connect_within = 30s;
  std::chrono::milliseconds deadline = 30s;  ///< of each operation; asynchronous ones count from their start
  std::uint64_t bits_per_second = 0;  ///< experiments: a slow link to each peer (no shared memory then); 0 = no limit
  std::chrono::milliseconds latency{0};  ///< experiments: an asynchronous operation starts this much later
  bool trace_algorithms = false;         ///< logs each new choice of an algorithm, and why
  std::chrono::milliseconds silent_after{
      0};                      ///< operations fail when a rank was silent for so long; 0 = deadlines only
  WaitBoard* waits = nullptr;  ///< shows the operation in progress; null: nobody asks. Outlives the communicator
  std::vector<Rank> in_the_view = {};  ///< of a subgroup: its ranks as the view numbers them
};

}  // namespace trireme::collective
