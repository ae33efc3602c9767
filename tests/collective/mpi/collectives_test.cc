// The results: those of the serial reference, bit for bit, whoever rows; MPI's own arithmetic where it is allowed.
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/collective/mpi/ranks.h"
#include "tests/collective/reference.h"
#include "tests/collective/suite.h"

namespace trireme::collective {
namespace {

TEST(MpiCollectives, EverythingAgreesWithTheReference) {
  EXPECT_EQ(all_ranks().transport(), "mpi");
  check_everything(all_ranks(), {.large = Scope::Large::kFew});
}

TEST(MpiCollectives, MoreThanOneBlock) {
  Communicator& ranks = all_ranks();
  const std::size_t count = (17u << 20) / sizeof(float) + 3;
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>((i + ranks.rank()) % 1000);
  ranks.run(all_reduce(std::span(data)));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (Rank rank = 0; rank < ranks.size(); ++rank) sum += static_cast<float>((i + rank) % 1000);
    wrong += data[i] != sum;
  }
  EXPECT_EQ(wrong, 0u);
}

/// Elements that are zero but for their lowest bit. As floating-point numbers these are multiples of the smallest one,
/// so that their sums too are exact in any order.
std::vector<std::byte> zeros_and_ones(DType dtype, std::size_t count, Rank rank) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) bytes[i * size_of(dtype)] = std::byte{(i + rank) % 3 != 0};
  return bytes;
}

std::vector<std::byte> reduction_of_zeros_and_ones(DType dtype, ReduceOp op, std::size_t count, std::uint32_t ranks) {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<Contribution> parts;
  for (Rank rank = 0; rank < ranks; ++rank) {
    inputs.push_back(zeros_and_ones(dtype, count, rank));
    parts.push_back({{rank, 1}, inputs.back().data()});
  }
  std::vector<std::byte> result(inputs[0].size());
  collective::reduce(dtype, op, ranks, parts, count, result.data(), ranks);
  return result;
}

TEST(MpiCollectives, AnyOrderMatchesTheReferenceForEveryType) {
  Communicator& ranks = all_ranks();
  const std::size_t count = 5003;
  const Rank root = ranks.size() - 1;
  const bool at_root = ranks.rank() == root;
  for (const DType dtype : all_types()) {
    for (const ReduceOp op : all_ops()) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(op), name_of(dtype)));
      const ReduceOptions options{.op = op, .any_order = true};
      const auto input = zeros_and_ones(dtype, count, ranks.rank());
      const auto expected = reduction_of_zeros_and_ones(dtype, op, count, ranks.size());
      for (const std::size_t shift : {0, 1}) {  // memory that MPI can add in, and memory that it cannot
        std::vector<std::byte> in(input.size() + 1);
        std::vector<std::byte> out(input.size() + 1);
        std::memcpy(in.data() + shift, input.data(), input.size());
        const Array data(dtype, in.data() + shift, count);
        const Array result(dtype, out.data() + shift, count);
        ranks.run(all_reduce(data, result, options));
        EXPECT_EQ(difference(dtype, expected, result.bytes()), "");
        ranks.run(reduce(data, at_root ? data : Array(dtype, nullptr, 0), root, options));
        if (at_root) {
          EXPECT_EQ(difference(dtype, expected, data.bytes()), "");
        }
        std::memcpy(data.data, input.data(), input.size());
        ranks.run(all_reduce(data, options));
        EXPECT_EQ(difference(dtype, expected, data.bytes()), "");
      }
    }
  }
}

TEST(MpiCollectives, ResultDoesNotDependOnTheNumberOfRanks) {
  Communicator& ranks = all_ranks();
  const auto lanes = deal_lanes(8, ranks.size());
  const LaneRange own = lanes[ranks.rank()];
  for (const std::size_t count : {std::size_t{1013}, std::size_t{100'003}}) {
    std::vector<std::vector<std::byte>> inputs;
    std::vector<Partial> partials;
    for (Lane lane = own.first; lane < own.end(); ++lane) {
      inputs.push_back(test_input(DType::kF32, count, lane));
      partials.push_back({{lane, 1}, reinterpret_cast<const float*>(inputs.back().data())});
    }
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      std::vector<float> values(count);
      tree_sum(8, partials, 0, values);
      const auto expected = slow_reduction(DType::kF32, op, count, 8);
      ranks.run(all_reduce(std::span(values), {.op = op, .lanes = lanes}));
      EXPECT_EQ(difference(DType::kF32, expected, std::as_bytes(std::span(values))), "");
    }
  }
}

TEST(MpiCollectives, ManyMessagesAndCollectivesAtATime) {
  Communicator& ranks = all_ranks();
  const std::uint32_t n = ranks.size();
  if (n == 1) return;
  constexpr std::size_t kMessages = 20;
  std::vector<std::vector<std::int32_t>> sent(kMessages * n);
  std::vector<std::vector<std::int32_t>> received(kMessages * n);
  std::vector<Handle> handles;
  // Receives are posted late on one half of the ranks and early on the other.
  const auto post = [&](bool sending) {
    for (std::size_t i = 0; i < kMessages; ++i) {
      for (Rank peer = 0; peer < n; ++peer) {
        if (peer == ranks.rank()) continue;
        const std::size_t count = i % 4 == 3 ? 70'001 : i * 10;
        auto& memory = (sending ? sent : received)[i * n + peer];
        memory.assign(count, sending ? static_cast<std::int32_t>(100 * ranks.rank() + i) : -1);
        handles.push_back(
            ranks.start(sending ? send(ConstArray(std::span(memory)), peer) : recv(Array(std::span(memory)), peer)));
      }
    }
  };
  post(ranks.rank() % 2 == 0);
  std::vector<std::int64_t> ones(10'000, 1);
  handles.push_back(ranks.start(all_reduce(std::span(ones))));
  post(ranks.rank() % 2 != 0);
  for (Handle& handle : handles) handle.wait();
  for (std::size_t i = 0; i < kMessages; ++i) {
    for (Rank peer = 0; peer < n; ++peer) {
      const auto& memory = received[i * n + peer];
      EXPECT_EQ(memory, std::vector<std::int32_t>(memory.size(), static_cast<std::int32_t>(100 * peer + i)));
    }
  }
  EXPECT_EQ(ones, std::vector<std::int64_t>(10'000, n));
}

TEST(MpiCollectives, MemoryIsZeroedAndTrafficIsCounted) {
  Communicator& ranks = all_ranks();
  const auto memory = ranks.allocate(5'000);
  const Array data(DType::kF32, memory.get(), 1'250);
  for (const std::byte byte : data.bytes()) ASSERT_EQ(byte, std::byte{0});
  const Traffic before = ranks.traffic();
  ranks.run(all_reduce(data));
  EXPECT_EQ(ranks.traffic().operations, before.operations + 1);
  EXPECT_GE(ranks.traffic().sent_bytes, before.sent_bytes + (ranks.size() > 1 ? data.size_bytes() : 0));
}

}  // namespace
}  // namespace trireme::collective
