// Ranks that disagree all hear of it and go on; ranks that do not come are not waited for longer than agreed.
#include <gtest/gtest.h>

#include "base/error.h"
#include "collective/mpi/mpi_backend.h"
#include "tests/collective/mpi/ranks.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

struct Memory {
  std::vector<float> in = std::vector<float>(60'000, 1.0f);
  std::vector<float> out = std::vector<float>(60'000);

  ConstArray read(std::size_t count, DType dtype = DType::kF32) const { return {dtype, in.data(), count}; }
  Array write(std::size_t count, DType dtype = DType::kF32) { return {dtype, out.data(), count}; }
};

/// The group is as before: the next call gives the right result.
void expect_usable(Communicator& ranks) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{30'000}}) {
    std::vector<std::int32_t> data(count, static_cast<std::int32_t>(ranks.rank()) + 1);
    ranks.run(all_reduce(std::span(data)));
    const auto n = static_cast<std::int32_t>(ranks.size());
    EXPECT_EQ(data, std::vector<std::int32_t>(count, n * (n + 1) / 2));
  }
}

/// One rank after the other asks for something else than the rest.
void expect_disagreement(const std::function<Operation(Memory&, bool odd)>& ask, const std::string& ones_words,
                         const std::string& others_words) {
  Communicator& ranks = all_ranks();
  for (Rank odd = 0; odd < ranks.size() && ranks.size() > 1; ++odd) {
    SCOPED_TRACE(ones_words);
    Memory memory;
    EXPECT_FAILS(ranks.run(ask(memory, ranks.rank() == odd)), InvalidArgument, "the ranks do not agree",
                 fmt::format("rank {}", odd), fmt::format("rank {}", ranks.rank()), ones_words, others_words);
    expect_usable(ranks);
  }
}

TEST(MpiFailures, EveryRankThrowsAndNamesBothCalls) {
  const std::uint32_t n = all_ranks().size();
  const Rank last = n - 1;
  using M = Memory&;
  expect_disagreement([](M m, bool odd) { return all_reduce(m.write(odd ? 10 : 11)); }, "of 10 F32", "of 11 F32");
  expect_disagreement([](M m, bool odd) { return all_reduce(m.write(odd ? 1 : 50'000)); }, "of 1 F32", "of 50000 F32");
  expect_disagreement([](M m, bool odd) { return all_reduce(m.write(odd ? 0 : 5)); }, "of 0 F32", "of 5 F32");
  expect_disagreement([](M m, bool odd) { return all_reduce(m.write(9, odd ? DType::kF64 : DType::kI32)); }, "9 F64",
                      "9 I32");
  expect_disagreement(
      [](M m, bool odd) { return all_reduce(m.write(9), {.op = odd ? ReduceOp::kMax : ReduceOp::kSum}); },
      "all_reduce max", "all_reduce sum");
  expect_disagreement([](M m, bool odd) { return all_reduce(m.write(9), {.any_order = odd}); }, "sum of 9 F32",
                      "sum of 9 F32");
  expect_disagreement([&](M m, bool odd) { return broadcast(m.write(7), odd ? last : 0); },
                      fmt::format("with root {}", last), "with root 0");
  expect_disagreement([](M m, bool odd) { return odd ? barrier() : all_reduce(m.write(7)); }, "barrier", "all_reduce");
  expect_disagreement(
      [&](M m, bool odd) { return odd ? all_gather(m.read(900), m.write(900 * n)) : all_reduce(m.write(7)); },
      "all_gather of 900 F32", "all_reduce");
  expect_disagreement([&](M m, bool odd) { return scatter(m.read(odd ? 9 * n : 12 * n), m.write(odd ? 9 : 12)); },
                      "scatter", "scatter");
  expect_disagreement(
      [](M m, bool odd) { return all_reduce(m.write(10), {.algorithm = odd ? Algorithm::kDirect : Algorithm::kAuto}); },
      "by direct", "sum of 10 F32");
}

TEST(MpiFailures, EmptyPartsOfDifferentTypes) {
  Communicator& ranks = all_ranks();
  if (ranks.size() < 3) return;
  // Two ranks bring nothing: of their types the one does not fit to the last rank's, who brings something.
  std::vector<std::size_t> counts(ranks.size());
  counts.back() = 5;
  const bool brings = ranks.rank() + 1 == ranks.size();
  Memory memory;
  const DType dtype = ranks.rank() == 0 ? DType::kI32 : DType::kF32;
  EXPECT_FAILS(ranks.run(all_gather(memory.read(brings ? 5 : 0, dtype), memory.write(5, dtype), counts)),
               InvalidArgument, "the ranks do not agree", "rank 0");
  expect_usable(ranks);
}

TEST(MpiFailures, PartsOfAllToAll) {
  Communicator& ranks = all_ranks();
  const std::uint32_t n = ranks.size();
  if (n == 1) return;
  Memory memory;
  const std::vector<std::size_t> to(n, 2);
  std::vector<std::size_t> from = to;
  if (ranks.rank() == 1) from[0] = 1;
  EXPECT_FAILS(ranks.run(all_to_all(memory.read(2 * n), memory.write(ranks.rank() == 1 ? 2 * n - 1 : 2 * n), to, from)),
               InvalidArgument, "the ranks do not agree", "rank 0 gives 2", "rank 1", "takes 1");
  expect_usable(ranks);
}

TEST(MpiFailures, ImpossibleAlgorithms) {
  Memory memory;
  EXPECT_FAILS(all_ranks().run(all_reduce(memory.write(10), {.algorithm = Algorithm::kRing})), InvalidArgument, "ring",
               "not possible here");
  EXPECT_FAILS(all_ranks().run(all_reduce(memory.write(50'000), {.algorithm = Algorithm::kOneShot})), InvalidArgument,
               "one-shot", "more than");
  expect_usable(all_ranks());
}

TEST(MpiFailures, SendAndRecvThatDoNotFit) {
  Communicator& ranks = all_ranks();
  if (ranks.size() > 1 && ranks.rank() < 2) {
    Memory memory;
    const bool sends = ranks.rank() == 0;
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{50'000}}) {
      EXPECT_FAILS(ranks.run(sends ? send(memory.read(count), 1) : recv(memory.write(count + 1), 0)), InvalidArgument,
                   fmt::format("rank 0 sends {} F32", count), fmt::format("rank 1 receives {} F32", count + 1));
      EXPECT_FAILS(ranks.run(sends ? send(memory.read(3), 1) : recv(memory.write(3, DType::kI32), 0)), InvalidArgument,
                   "rank 0 sends 3 F32", "rank 1 receives 3 I32");
    }
    // What comes behind a refused message is not touched by it.
    const std::vector<float> three{1, 2, 3};
    std::vector<float> got(3);
    Handle refused = ranks.start(sends ? send(memory.read(9), 1) : recv(memory.write(8), 0));
    ranks.run(sends ? send(ConstArray(std::span(three)), 1) : recv(Array(std::span(got)), 0));
    EXPECT_THROW(refused.wait(), InvalidArgument);
    if (!sends) {
      EXPECT_EQ(got, three);
    }
  }
  expect_usable(ranks);
}

TEST(MpiFailures, MissingRankIsATimeout) {
  if (all_ranks().size() == 1) return;
  Communicator ranks(make_mpi_backend());
  if (ranks.rank() == 0) {
    expect_ends_within(kPatience, [&] {
      EXPECT_FAILS(ranks.run(barrier(), Deadline::in(200ms)), Timeout, "barrier", "within 0.2 s", "rank has not come");
    });
    EXPECT_FAILS(ranks.run(barrier()), PeerLost, "cannot go on");
  }
  barrier_without_communicator();
  if (ranks.rank() != 0) ranks.run(barrier());  // rank 0 had come, and left
  barrier_without_communicator();
}

TEST(MpiFailures, MessageWithoutReceiverIsATimeout) {
  if (all_ranks().size() == 1) return;
  for (const OperationKind kind : {OperationKind::kSend, OperationKind::kRecv}) {
    Communicator ranks(make_mpi_backend(), {.deadline = 200ms});
    if (ranks.rank() == 0) {
      Memory memory;
      const Operation operation =
          kind == OperationKind::kSend ? send(memory.read(60'000), 1) : recv(memory.write(9), 1);
      EXPECT_FAILS(ranks.run(operation), Timeout, std::string(name_of(kind)), "rank 1 has not come");
      EXPECT_FAILS(ranks.run(barrier()), PeerLost, "cannot go on");
    }
    barrier_without_communicator();
  }
}

TEST(MpiFailures, AbortEndsOperationsInProgress) {
  if (all_ranks().size() == 1) return;
  Communicator ranks(make_mpi_backend());
  if (ranks.rank() == 0) {
    Memory memory;
    Handle message = ranks.start(recv(memory.write(3), 1));
    Handle waiting = ranks.start(barrier());
    const Deadline soon = Deadline::in(10s);
    while (ranks.traffic().sent_bytes == 0 && !soon.passed()) std::this_thread::yield();  // until it has begun
    ranks.abort("enough for today");
    EXPECT_FAILS(message.wait(), PeerLost, "enough for today");
    EXPECT_FAILS(waiting.wait(), PeerLost, "enough for today");
    EXPECT_FAILS(ranks.run(barrier()), PeerLost, "enough for today");
  }
  barrier_without_communicator();
  if (ranks.rank() != 0) ranks.run(barrier());  // rank 0 had come, and left
  barrier_without_communicator();
}

TEST(MpiFailures, SubgroupAndReconfigureNeedTheNativeEngine) {
  EXPECT_FAILS(all_ranks().subgroup("few", {all_ranks().rank()}), InvalidArgument, "native");
  EXPECT_FAILS(all_ranks().reconfigure(0, 2, {}), InvalidArgument, "native");
}

}  // namespace
}  // namespace trireme::collective
