#include "elastic/state_sync.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/collective/testing.h"

namespace trireme {
namespace {

std::vector<NamedParameter> state_of(float value, std::size_t tensors) {
  std::vector<NamedParameter> state;
  for (std::size_t i = 0; i < tensors; ++i) state.push_back({std::to_string(i), torch::full({100}, value)});
  return state;
}

bool all_are(const std::vector<NamedParameter>& state, float value) {
  return std::ranges::all_of(state,
                             [&](const NamedParameter& piece) { return (piece.tensor == value).all().item<bool>(); });
}

TEST(StateSync, AllTakeTheStateOfTheFurthest) {
  collective::expect_ranks(3, {}, [](collective::Communicator& ranks) {
    const auto state = state_of(static_cast<float>(ranks.rank()), 3);
    const Position own{.fresh = false, .version = ranks.rank() == 1 ? Step{7} : Step{6}};
    const SyncResult result = sync_to_furthest(ranks, own, state);
    EXPECT_EQ(result.at.version, 7u);
    EXPECT_EQ(result.taken, ranks.rank() != 1);
    EXPECT_TRUE(all_are(state, 1));
  });
}

TEST(StateSync, WhoIsLevelKeepsItsStateOnlyIfItIsSettled) {
  for (const bool settled : {true, false}) {
    collective::expect_ranks(2, {}, [&](collective::Communicator& ranks) {
      const auto state = state_of(static_cast<float>(ranks.rank()), 1);
      const SyncResult result = sync_to_furthest(ranks, {.fresh = false, .version = 7, .settled = settled}, state);
      EXPECT_EQ(result.taken, !settled && ranks.rank() == 1);
      EXPECT_TRUE(all_are(state, settled ? static_cast<float>(ranks.rank()) : 0));
    });
  }
}

/// Else it would go on with half of each, and believe that it is its own.
TEST(StateSync, AStateThatArrivesInPartChangesNothing) {
  const collective::Ranks all(2);
  const auto mine = state_of(1, 2);
  const auto problems = all.run([&](Rank rank) {
    collective::Communicator ranks(*all.endpoints[rank], all.options(rank));
    const Position own{.fresh = false, .version = rank == 0 ? Step{7} : Step{6}};
    sync_to_furthest(ranks, own, rank == 0 ? state_of(0, 1) : mine);  // rank 0 goes after its first tensor
  });
  EXPECT_EQ(problems[0], "");
  EXPECT_NE(problems[1], "");
  EXPECT_TRUE(all_are(mine, 1));
}

}  // namespace
}  // namespace trireme
