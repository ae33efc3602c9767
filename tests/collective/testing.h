#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collective/communicator.h"
#include "tests/support/secret.h"

namespace trireme::collective {

/// Endpoints of so many ranks that live in this process.
struct Ranks {
  explicit Ranks(std::uint32_t size) {
    for (std::uint32_t i = 0; i < size; ++i) {
      endpoints.push_back(std::make_unique<Endpoint>(EndpointOptions{.secret = kSecret}));
      addresses.push_back(endpoints.back()->address());
    }
  }

  CommunicatorOptions options(Rank rank, CommunicatorOptions base = {}) const {
    base.rank = rank;
    base.members = addresses;
    return base;
  }

  /// Runs `body` for each rank on a thread of its own; returns what each threw ("" = nothing).
  std::vector<std::string> run(const std::function<void(Rank rank)>& body) const {
    std::vector<std::string> problems(endpoints.size());
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < endpoints.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const std::exception& problem) {
          problems[rank] = problem.what();
        }
      });
    }
    threads.clear();
    return problems;
  }

  /// From now on this rank seems to be on another host: nobody shares memory with it.
  void move_away(Rank rank) { addresses[rank].unix_name.clear(); }

  /// From now on this rank seems to be on the same host as the others, but they share no memory with it: as in another
  /// container, or on a copy of a virtual machine. Only for rank 0, to which all others connect.
  void seal_off_rank_0() { addresses[0].unix_name = "trireme-nobody"; }

  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::vector<net::Address> addresses;
};

/// Runs `body` on `size` connected ranks, each on a thread of its own; nothing may be thrown. The ranks of `elsewhere`
/// share no memory with anybody.
inline void expect_ranks(std::uint32_t size, const CommunicatorOptions& base,
                         const std::function<void(Communicator& ranks)>& body,
                         const std::vector<Rank>& elsewhere = {}) {
  Ranks ranks(size);
  for (const Rank rank : elsewhere) ranks.move_away(rank);
  const auto problems = ranks.run([&](Rank rank) {
    Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, base));
    body(communicator);
    communicator.run(barrier());  // nobody leaves while others are still at work
  });
  for (Rank rank = 0; rank < size; ++rank) EXPECT_EQ(problems[rank], "") << "rank " << rank << " of " << size;
}

/// The transports between ranks of one process.
struct TransportCase {
  net::Transport transport = net::Transport::kAuto;
  std::vector<Rank> elsewhere = {};  ///< see expect_ranks
  std::string name = "";
};

inline void PrintTo(const TransportCase& transport, std::ostream* out) { *out << transport.name; }

inline const TransportCase kShm{net::Transport::kShm, {}, "shm"};
inline const TransportCase kTcp{net::Transport::kTcp, {}, "tcp"};
inline const TransportCase kTls{net::Transport::kTls, {}, "tls"};

}  // namespace trireme::collective
