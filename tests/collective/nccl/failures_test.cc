// Ranks that disagree all hear of it and go on; kernels that cannot end are aborted.
#include <nccl.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/collective/nccl/gpus.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

void expect_usable(Communicator& gpus) {
  std::vector<std::int32_t> data(3'000, static_cast<std::int32_t>(gpus.rank()) + 1);
  gpus.run(all_reduce(std::span(data)));
  const auto n = static_cast<std::int32_t>(gpus.size());
  EXPECT_EQ(data, std::vector<std::int32_t>(3'000, n * (n + 1) / 2));
}

TEST(NcclFailures, EveryRankThrowsAndNamesBothCalls) {
  expect_gpus(3, {}, [](Communicator& gpus) {
    if (gpus.size() == 1) return;
    std::vector<float> memory(60);
    for (Rank odd = 0; odd < gpus.size(); ++odd) {
      const std::size_t count = gpus.rank() == odd ? 10 : 11;
      EXPECT_FAILS(gpus.run(all_reduce(std::span(memory).first(count))), InvalidArgument, "the ranks do not agree",
                   fmt::format("rank {}", odd), fmt::format("rank {}", gpus.rank()), "of 10 F32", "of 11 F32");
      expect_usable(gpus);
    }
    const std::vector<std::size_t> to(gpus.size(), 2);
    std::vector<std::size_t> from = to;
    if (gpus.rank() == 1) from[0] = 1;
    std::vector<float> out(2 * gpus.size() - (gpus.rank() == 1 ? 1 : 0));
    const auto in = std::span(memory).first(2 * gpus.size());
    EXPECT_FAILS(gpus.run(all_to_all(ConstArray(in), std::span(out), to, from)), InvalidArgument, "rank 0 gives 2",
                 "rank 1", "takes 1");
    expect_usable(gpus);
  });
}

TEST(NcclFailures, UnsupportedOperationsThrow) {
  expect_gpus(2, {}, [](Communicator& gpus) {
    std::vector<float> memory(60);
    EXPECT_FAILS(gpus.run(all_reduce(std::span(memory), {.algorithm = Algorithm::kRing})), InvalidArgument, "ring",
                 "not possible here");
    EXPECT_FAILS(gpus.subgroup("few", {gpus.rank()}), InvalidArgument, "native");
    expect_usable(gpus);
  });
}

TEST(NcclFailures, NoSuchDevice) {
  expect_ranks(1, {}, [](Communicator& hosts) {
    EXPECT_FAILS(make_nccl_backend(hosts, 1'000), InvalidArgument, "no GPU 1000", "one of its own");
  });
}

TEST(NcclFailures, SendAndRecvThatDoNotFit) {
  expect_gpus(2, {}, [](Communicator& gpus) {
    if (gpus.size() == 1) return;
    std::vector<float> memory(60);
    const bool sends = gpus.rank() == 0;
    const auto message = [&](std::size_t sent, std::size_t received) {
      const auto part = std::span(memory).first(sends ? sent : received);
      return sends ? send(ConstArray(part), 1) : recv(Array(part), 0);
    };
    EXPECT_FAILS(gpus.run(message(5, 6)), InvalidArgument, "rank 0 sends 5 F32", "rank 1 receives 6 F32");
    EXPECT_FAILS(gpus.run(message(0, 6)), InvalidArgument, "rank 0 sends 0 F32", "rank 1 receives 6 F32");
    Handle refused = gpus.start(message(9, 8));
    gpus.run(message(7, 7));
    EXPECT_THROW(refused.wait(), InvalidArgument);
    gpus.run(message(0, 0));
    expect_usable(gpus);
  });
}

TEST(NcclFailures, MissingRankIsATimeoutThatNamesIt) {
  expect_gpus(2, {}, [](Communicator& gpus) {
    if (gpus.size() == 1 || gpus.rank() == 1) return;
    EXPECT_FAILS(gpus.run(barrier(), Deadline::in(200ms)), Timeout, "rank 1");
    EXPECT_FAILS(gpus.run(barrier()), PeerLost, "cannot go on");
  });
}

TEST(NcclFailures, AbortEndsOperationsInProgress) {
  expect_gpus(2, {}, [](Communicator& gpus) {
    if (gpus.size() == 1 || gpus.rank() == 1) return;
    std::vector<float> memory(60);
    Handle message = gpus.start(recv(std::span(memory), 1));
    Handle waiting = gpus.start(barrier());
    gpus.abort("enough for today");
    EXPECT_FAILS(message.wait(), PeerLost, "enough for today");
    EXPECT_FAILS(waiting.wait(), PeerLost, "enough for today");
  });
}

#ifdef TRIREME_NCCL_STAND_IN

/// For as long as it lives, no kernel ends.
struct Hanging {
  Hanging() { stand_in_hang(true); }
  ~Hanging() { stand_in_hang(false); }
};

TEST(NcclFailures, AKernelThatHangsIsAborted) {
  const Hanging hanging;
  expect_gpus(3, {}, [](Communicator& gpus) {
    std::vector<float> data(5'000);
    EXPECT_FAILS(gpus.run(all_reduce(std::span(data)), Deadline::in(300ms)), Timeout, "all_reduce", "within 0.3 s");
    EXPECT_FAILS(gpus.run(barrier()), PeerLost, "cannot go on");
  });
}

/// Ranks that are in a kernel for another's sake hear of its end long before their own deadline.
TEST(NcclFailures, ARankThatIsLostInAKernelIsNoticed) {
  for (const bool in_message : {false, true}) {
    const Hanging hanging;
    Ranks ranks(3);
    std::vector<std::string> problems;
    expect_ends_within(kPatience, [&] {
      problems = ranks.run([&](Rank rank) {
        Communicator hosts(*ranks.endpoints[rank], ranks.options(rank));
        Communicator gpus(make_nccl_backend(hosts, static_cast<int>(rank)), {.deadline = rank == 2 ? 300ms : 30s});
        std::vector<float> data(5'000);
        if (!in_message) {
          gpus.run(all_reduce(std::span(data)));
        } else if (rank > 0) {
          gpus.run(rank == 1 ? send(ConstArray(std::span(data)), 2) : recv(std::span(data), 1));
        }
      });
    });
    EXPECT_THAT(problems[2], ::testing::HasSubstr("did not end within 0.3 s"));
    EXPECT_THAT(problems[1], ::testing::HasSubstr("rank"));
    if (!in_message) {
      EXPECT_THAT(problems[0], ::testing::HasSubstr("rank"));
    }
  }
}

#endif

}  // namespace
}  // namespace trireme::collective
