// Operations in the background: handles, groups, messages beside collectives, subgroups, the end of a communicator.
#include <latch>
#include <thread>

#include "base/error.h"
#include "tests/collective/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kManyFloats = (3u << 20) / sizeof(float);

struct AsyncTest : ::testing::TestWithParam<TransportCase> {
  void on_ranks(std::uint32_t size, const std::function<void(Communicator& ranks)>& body) {
    expect_ranks(size, {.transport = GetParam().transport}, body, GetParam().elsewhere);
  }
};

INSTANTIATE_TEST_SUITE_P(Over, AsyncTest,
                         ::testing::Values(kShm, kTcp, TransportCase{net::Transport::kAuto, {1}, "shm_and_tcp"}),
                         [](const auto& test) { return test.param.name; });

float sum_of_ranks(std::uint32_t size) { return static_cast<float>(size * (size - 1)) / 2; }

std::vector<float> own(const Communicator& ranks, std::size_t count, float more = 0) {
  return std::vector<float>(count, static_cast<float>(ranks.rank()) + more);
}

TEST_P(AsyncTest, ManyHandlesInFlight) {
  on_ranks(3, [](Communicator& ranks) {
    std::vector<std::vector<float>> data;
    std::vector<Handle> handles;
    for (int i = 0; i < 100; ++i) {
      data.push_back(own(ranks, i % 10 == 0 ? 50'000 : static_cast<std::size_t>(i), static_cast<float>(i)));
    }
    for (auto& values : data) handles.push_back(ranks.start(all_reduce(std::span(values))));
    // In any order.
    for (std::size_t i = handles.size(); i-- > 0;) {
      handles[i].wait();
      EXPECT_TRUE(handles[i].poll());
      handles[i].wait();  // again: the same
      const float expected = sum_of_ranks(3) + 3 * static_cast<float>(i);
      EXPECT_EQ(data[i], std::vector<float>(data[i].size(), expected)) << i;
    }
  });
}

TEST_P(AsyncTest, WaitTimesOutAndTheOperationContinues) {
  std::latch waited(1);
  on_ranks(2, [&](Communicator& ranks) {
    auto data = own(ranks, 1000);
    if (ranks.rank() == 1) waited.wait();
    Handle handle = ranks.start(all_reduce(std::span(data)));
    if (ranks.rank() == 0) {
      EXPECT_FAILS(handle.wait(Deadline::in(50ms)), Timeout, "all_reduce sum of 1000 F32", "not ended yet");
      EXPECT_FALSE(handle.poll());
      waited.count_down();
    }
    handle.wait();
    EXPECT_EQ(data.back(), 1.0f);
  });
}

TEST_P(AsyncTest, BlockingCallsRunAfterStartedOnes) {
  on_ranks(3, [](Communicator& ranks) {
    for (int i = 0; i < 20; ++i) {
      auto first = own(ranks, 40'000);
      auto second = own(ranks, 10, 5);
      Handle handle = ranks.start(all_reduce(std::span(first)));
      ranks.run(all_reduce(std::span(second)));
      EXPECT_TRUE(handle.poll());
      EXPECT_EQ(first.back(), 3.0f);
      EXPECT_EQ(second.back(), 18.0f);
    }
  });
}

TEST_P(AsyncTest, LargeMessagesInBothDirectionsAtOnce) {
  on_ranks(2, [](Communicator& ranks) {
    const Rank peer = 1 - ranks.rank();
    const auto data = own(ranks, kManyFloats);
    std::vector<float> got(kManyFloats);
    for (int i = 0; i < 3; ++i) {
      ranks.run({send(ConstArray(std::span(data)), peer), recv(Array(std::span(got)), peer)});
      EXPECT_EQ(got, std::vector<float>(kManyFloats, static_cast<float>(peer)));
      got.assign(kManyFloats, -1);
      ranks.run({recv(Array(std::span(got)), peer), send(ConstArray(std::span(data)), peer)});
      EXPECT_EQ(got, std::vector<float>(kManyFloats, static_cast<float>(peer)));
    }
  });
}

TEST_P(AsyncTest, EverybodySendsToEverybodyInOneGroup) {
  on_ranks(4, [](Communicator& ranks) {
    constexpr std::size_t kCount = 70'001;
    std::vector<std::vector<float>> out(4);
    std::vector<std::vector<float>> in(4, std::vector<float>(kCount));
    std::vector<Operation> group;
    for (Rank peer = 0; peer < 4; ++peer) {
      if (peer == ranks.rank()) continue;
      out[peer] = own(ranks, kCount, 10 * static_cast<float>(peer));
      group.push_back(send(ConstArray(std::span(out[peer])), peer));
      group.push_back(recv(Array(std::span(in[peer])), peer));
    }
    ranks.run(group);
    for (Rank peer = 0; peer < 4; ++peer) {
      if (peer == ranks.rank()) continue;
      const float expected = static_cast<float>(peer) + 10 * static_cast<float>(ranks.rank());
      EXPECT_EQ(in[peer], std::vector<float>(kCount, expected));
    }
  });
}

TEST_P(AsyncTest, MessagesOfOnePairAreMatchedInOrder) {
  on_ranks(2, [](Communicator& ranks) {
    std::vector<std::vector<float>> data(50);
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::size_t count = i % 7 == 0 ? 0 : i * 1000;
      data[i].assign(count, ranks.rank() == 0 ? static_cast<float>(i) : -1);
      handles.push_back(ranks.start(ranks.rank() == 0 ? send(ConstArray(std::span(data[i])), 1)
                                                      : recv(Array(std::span(data[i])), 0)));
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      handles[i].wait();
      EXPECT_EQ(data[i], std::vector<float>(data[i].size(), static_cast<float>(i)));
    }
  });
}

TEST_P(AsyncTest, SendBeforeACollectiveIsReceivedAfterIt) {
  on_ranks(3, [](Communicator& ranks) {
    const Rank right = (ranks.rank() + 1) % 3;
    const Rank left = (ranks.rank() + 2) % 3;
    const auto gift = own(ranks, kManyFloats / 4);
    Handle sent = ranks.start(send(ConstArray(std::span(gift)), right));
    auto data = own(ranks, 100'000);
    for (int i = 0; i < 3; ++i) ranks.run(all_reduce(std::span(data)));
    std::vector<float> got(gift.size());
    ranks.run(recv(Array(std::span(got)), left));
    EXPECT_EQ(got, std::vector<float>(got.size(), static_cast<float>(left)));
    sent.wait();
    EXPECT_EQ(data.front(), 27.0f);
  });
}

TEST_P(AsyncTest, AllocationsRunAfterStartedOperations) {
  on_ranks(3, [](Communicator& ranks) {
    for (int i = 0; i < 10; ++i) {
      auto data = own(ranks, 60'000);
      // One rank has finished the reduction before it allocates, the others may not have begun it.
      Handle handle = ranks.start(all_reduce(std::span(data)));
      if (ranks.rank() == 2) handle.wait();
      const auto memory = ranks.allocate(60'000 * sizeof(float));
      auto* shared = reinterpret_cast<float*>(memory.get());
      std::fill(shared, shared + 60'000, 1.0f);
      ranks.run(all_reduce(std::span(shared, 60'000)));
      EXPECT_EQ(shared[59'999], 3.0f);
      handle.wait();
      EXPECT_EQ(data.back(), 3.0f);
    }
  });
}

TEST_P(AsyncTest, Subgroups) {
  on_ranks(4, [](Communicator& ranks) {
    const Rank parity = ranks.rank() % 2;
    const auto half = ranks.subgroup("half", {parity, parity + 2});
    EXPECT_EQ(half->size(), 2u);
    EXPECT_EQ(half->rank(), ranks.rank() / 2);
    auto data = own(ranks, 30'000);
    half->run(all_reduce(std::span(data)));
    EXPECT_EQ(data.back(), 2 * static_cast<float>(parity) + 2);
    // Both at work at the same time, and one within the other.
    auto inner = own(ranks, 20'000);
    auto outer = own(ranks, 20'000);
    Handle inner_handle = half->start(all_reduce(std::span(inner)));
    Handle outer_handle = ranks.start(all_reduce(std::span(outer)));
    outer_handle.wait();
    inner_handle.wait();
    EXPECT_EQ(outer.front(), 6.0f);
    EXPECT_EQ(inner.front(), 2 * static_cast<float>(parity) + 2);
    const auto alone = half->subgroup("alone", {half->rank()});
    EXPECT_EQ(alone->transport(), "alone");
    EXPECT_FAILS(ranks.subgroup("wrong", {0, 0, 1, 2, 3}), InvalidArgument, "wrong", "ascending");
    EXPECT_FAILS(ranks.subgroup("others", {(ranks.rank() + 1) % 4}), InvalidArgument, "among them");
  });
}

TEST_P(AsyncTest, HandlesOfADestroyedCommunicatorEnd) {
  Ranks ranks(2);
  std::vector<std::unique_ptr<Communicator>> both(2);
  const auto problems = ranks.run([&](Rank rank) {
    both[rank] = std::make_unique<Communicator>(*ranks.endpoints[rank],
                                                ranks.options(rank, {.transport = GetParam().transport}));
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
  std::vector<float> memory(kManyFloats, 1);
  std::vector<float> other(kManyFloats);
  std::vector<Handle> handles;
  handles.push_back(both[0]->start(send(ConstArray(std::span(memory)), 1)));
  handles.push_back(both[0]->start(recv(Array(std::span(other)), 1)));
  handles.push_back(both[0]->start(all_reduce(std::span(memory))));
  handles.push_back(both[0]->start(barrier()));
  expect_ends_within(kPatience, [&] { both[0].reset(); });
  for (Handle& handle : handles) {
    EXPECT_TRUE(handle.poll());
    EXPECT_FAILS(handle.wait(), PeerLost, "");
  }
  std::vector<float> left(kManyFloats);  // as many as rank 0 had, whose call may have got here before it left
  EXPECT_FAILS(both[1]->run(all_reduce(std::span(left))), PeerLost, "rank 0", "has left", "all_reduce");
  EXPECT_FAILS(both[1]->run(barrier()), PeerLost, "reconfigured", "rank 0");
}

// In the middle of a message that the other side has accepted.
TEST_P(AsyncTest, ACommunicatorEndsInTheMiddleOfAMessage) {
  for (const Rank leaver : {Rank{0}, Rank{1}}) {
    Ranks ranks(2);
    const auto problems = ranks.run([&](Rank rank) {
      auto communicator = std::make_unique<Communicator>(*ranks.endpoints[rank],
                                                         ranks.options(rank, {.transport = GetParam().transport}));
      std::vector<float> memory(8 * kManyFloats, 1);
      Handle handle =
          communicator->start(rank == 0 ? send(ConstArray(std::span(memory)), 1) : recv(Array(std::span(memory)), 0));
      if (rank == leaver) {
        while (communicator->traffic().sent_bytes < 1000 && !handle.poll()) std::this_thread::yield();
        communicator.reset();
        EXPECT_TRUE(handle.poll());
        return;
      }
      try {
        handle.wait();  // it may have got through
      } catch (const PeerLost& problem) {
        EXPECT_THAT(problem.what(), ::testing::HasSubstr(fmt::format("rank {}", leaver)));
      }
    });
    EXPECT_EQ(problems, std::vector<std::string>(2));
  }
}

TEST_P(AsyncTest, MessageWithoutReceiverTimesOut) {
  Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    Communicator communicator(*ranks.endpoints[rank],
                              ranks.options(rank, {.transport = GetParam().transport, .deadline = 500ms}));
    if (rank == 1) {
      EXPECT_THROW(communicator.run(barrier()), Error);  // rank 0 never comes
      return;
    }
    std::vector<float> data(kManyFloats, 1);
    expect_ends_within(kPatience, [&] {
      EXPECT_FAILS(communicator.run(send(ConstArray(std::span(data)), 1)), Timeout, "send of", "to rank 1");
    });
    EXPECT_FAILS(communicator.run(barrier()), PeerLost, "reconfigured");
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

TEST_P(AsyncTest, AbortWakesWaitingThreads) {
  Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, {.transport = GetParam().transport}));
    communicator.run(barrier());
    if (rank == 1) {
      std::vector<float> go(1);
      EXPECT_THROW(communicator.run(recv(Array(std::span(go)), 0)), PeerLost);  // until rank 0 is gone
      return;
    }
    std::jthread other([&] { communicator.abort("enough of it"); });
    EXPECT_FAILS(communicator.run(barrier()), PeerLost, "enough of it");
    other.join();
    EXPECT_FAILS(communicator.run(barrier()), PeerLost, "enough of it");
    EXPECT_FAILS(communicator.start(barrier()), PeerLost, "enough of it");
    EXPECT_FAILS(communicator.allocate(10), PeerLost, "enough of it");
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

TEST_P(AsyncTest, ThreadsWithACommunicatorEach) {
  on_ranks(2, [](Communicator& ranks) {
    std::vector<std::unique_ptr<Communicator>> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(ranks.subgroup(fmt::format("thread {}", i), {0, 1}));
    std::vector<std::jthread> threads;
    for (auto& group : groups) {
      threads.emplace_back([&group] {
        for (int turn = 0; turn < 50; ++turn) {
          auto data = own(*group, turn % 2 == 0 ? 10 : 30'000);
          group->run(all_reduce(std::span(data)));
          EXPECT_EQ(data.back(), 1.0f);
        }
      });
    }
  });
}

// Threads that share a communicator take turns by the messages they pass, so that all ranks call in the same order.
TEST_P(AsyncTest, ThreadsThatShareACommunicator) {
  on_ranks(2, [](Communicator& ranks) {
    std::vector<std::vector<float>> data(40);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = own(ranks, 1 + i * 500);
    std::atomic<std::size_t> next{0};
    const auto work = [&](std::size_t parity) {
      for (std::size_t i = parity; i < data.size(); i += 2) {
        while (next.load() != i) std::this_thread::yield();
        Handle handle = ranks.start(all_reduce(std::span(data[i])));
        next.store(i + 1);
        handle.wait();
        EXPECT_EQ(data[i].back(), 1.0f);
      }
    };
    std::jthread other(work, 1);
    work(0);
  });
}

TEST(Async, ArtificialLatenciesOverlap) {
  // One after the other they would take 40 s, more than any of them is given.
  expect_ranks(2, {.deadline = 20s, .latency = 400ms}, [](Communicator& ranks) {
    std::vector<std::vector<float>> data(100, own(ranks, 100));
    std::vector<Handle> handles;
    for (auto& values : data) handles.push_back(ranks.start(all_reduce(std::span(values))));
    for (Handle& handle : handles) handle.wait();
    EXPECT_EQ(data.back().back(), 1.0f);
  });
}

TEST(Async, AnArtificialLatencyDelays) {
  Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    std::vector<float> data(100, 1);
    auto communicator = std::make_unique<Communicator>(*ranks.endpoints[rank], ranks.options(rank, {.latency = 1h}));
    Handle handle = communicator->start(all_reduce(std::span(data)));
    EXPECT_FAILS(handle.wait(Deadline::in(100ms)), Timeout, "all_reduce");
    EXPECT_FALSE(handle.poll());
    communicator.reset();
    EXPECT_THROW(handle.wait(), PeerLost);
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

TEST(Async, ASlowLinkCarriesNoMoreThanItsRate) {
  expect_ranks(2, {.bits_per_second = 80'000'000}, [](Communicator& ranks) {
    EXPECT_EQ(ranks.transport(), "tls");
    std::vector<float> data(250'000, 1);  // 1 MB in each direction
    ranks.run(all_reduce(std::span(data)));
    EXPECT_EQ(data.back(), 2.0f);
    EXPECT_GE(ranks.traffic().sent_bytes, 900'000u);
  });
  Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {  // at 100 kB/s 4 MB would take 40 s
    Communicator slow(*ranks.endpoints[rank], ranks.options(rank, {.deadline = 300ms, .bits_per_second = 800'000}));
    std::vector<float> data(1'000'000, 1);
    EXPECT_THROW(slow.run(all_reduce(std::span(data))), Error);  // Timeout, or the other's
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

TEST(Async, TrafficIsCounted) {
  expect_ranks(2, {.transport = net::Transport::kShm}, [](Communicator& ranks) {
    std::vector<float> data(100'000, 1);
    const Traffic before = ranks.traffic();
    ranks.run(all_reduce(std::span(data)));
    const Traffic after = ranks.traffic();
    EXPECT_EQ(after.operations, before.operations + 1);
    EXPECT_GE(after.shared_bytes - before.shared_bytes, 200'000u);
    EXPECT_EQ(after.sent_bytes, 0u);
  });
}

}  // namespace
}  // namespace trireme::collective
