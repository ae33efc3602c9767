#include "checkpoint/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using EntryState = CheckpointEntry::State;

CheckpointEntry entry(Step step, EntryState state = EntryState::kComplete, std::optional<double> score = {}) {
  return {.folder = std::to_string(step), .step = step, .state = state, .score = score};
}

std::vector<std::string> removed(std::vector<CheckpointEntry> entries, const RetentionPolicy& policy, Step current) {
  std::vector<std::string> folders;
  for (const Removal& removal : decide_removals(entries, policy, current)) {
    EXPECT_FALSE(removal.reason.empty());
    folders.push_back(removal.folder.string());
  }
  return folders;
}

TEST(DecideRemovals, KeepsTheLast) {
  EXPECT_THAT(removed({entry(1), entry(2), entry(3)}, {.keep_last = 2}, 3), ElementsAre("1"));
  EXPECT_THAT(removed({entry(1), entry(2), entry(3)}, {.keep_last = 3}, 3), IsEmpty());
  EXPECT_THAT(removed({entry(1), entry(2), entry(3)}, {.keep_last = 0}, 3), IsEmpty());
}

TEST(DecideRemovals, KeepsTheBestAndOfEqualsTheEarlier) {
  const auto scored = [](Step step, double score) { return entry(step, EntryState::kComplete, score); };
  EXPECT_THAT(removed({scored(1, 0.5), scored(2, 0.9), scored(3, 0.9), entry(4), scored(5, 0.1)},
                      {.keep_last = 1, .keep_best = 1}, 5),
              ElementsAre("1", "3", "4"));
  EXPECT_THAT(removed({scored(1, 0.5), scored(2, 0.9), entry(3)}, {.keep_last = 1, .keep_best = 0}, 3),
              ElementsAre("1", "2"));
}

TEST(DecideRemovals, NeverRemovesDamagedOrUnfinishedNewerCheckpoints) {
  EXPECT_THAT(removed({entry(1, EntryState::kIncomplete), entry(2, EntryState::kDamaged), entry(3),
                       entry(4, EntryState::kIncomplete)},
                      {.keep_last = 1}, 3),
              ElementsAre("1"));
}

TEST(DecideRemovals, NeverRemovesTheOneJustWritten) {
  EXPECT_THAT(removed({entry(5), entry(8), entry(9), entry(10)}, {.keep_last = 2}, 5), ElementsAre("8"))
      << "a run that went back to an earlier step";
  EXPECT_THAT(removed({entry(4, EntryState::kIncomplete), entry(5), entry(7, EntryState::kIncomplete), entry(9)},
                      {.keep_last = 2}, 5),
              ElementsAre("4"));
}

}  // namespace
}  // namespace trireme::checkpoint
