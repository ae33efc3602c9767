#include "tune/trial_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TuneState three_trials() {
  TuneState state{.asha = {.trials = 3, .slots = 2, .eta = 3, .rungs = {0.5, 1.0}},
                  .words = {"--data", "a file.csv"},
                  .length = {"--steps", "20"}};
  for (const char* lr : {"0.1", "0.01", "0.001"}) {
    state.trials.push_back({.values = {{"lr", lr}}, .steps = {10, 20}, .schedule = "cosine:20"});
  }
  state.results = {{.what = {0, 0}, .steps = 10, .value = 0.5},
                   {.what = {1, 0}, .steps = 10, .value = 0.7},
                   {.what = {2, 0}, .steps = 10, .failure = "its accuracy is not a number"},
                   {.what = {1, 1}, .steps = 20, .value = 0.8}};
  return state;
}

TEST(TrialTable, BestComesFirstAndFailuresLast) {
  const TuneState state = three_trials();
  EXPECT_THAT(ranked_trials(state), ElementsAre(1, 0, 2));
  EXPECT_EQ(state.best(), 1u);
  EXPECT_EQ(state.steps_made(), 40u);
  const std::string table = to_table(state);
  EXPECT_THAT(table, HasSubstr("trained fully"));
  EXPECT_THAT(table, HasSubstr("ended at rung 0"));
  EXPECT_THAT(table, HasSubstr("failed: its accuracy is not a number"));
}

TEST(TrialTable, LessIsBetterForALoss) {
  TuneState state = three_trials();
  state.metric = "loss";
  state.more_is_better = false;
  EXPECT_THAT(ranked_trials(state), ElementsAre(0, 1, 2));
  EXPECT_EQ(state.best(), 0u);
}

TEST(TrialTable, CommandIsThatOfAWholeTrainingQuotedForAShell) {
  EXPECT_EQ(command_of(three_trials(), 1), "trireme train --data 'a file.csv' --steps 20 --lr 0.01");
}

TEST(TrialTable, PictureHasADotForEachResult) {
  const std::string picture = to_picture(three_trials());
  std::size_t dots = 0;
  for (std::size_t at = picture.find("<circle"); at != std::string::npos; at = picture.find("<circle", at + 1)) ++dots;
  EXPECT_EQ(dots, 3u) << picture;
}

TEST(TuneState, IsTheSameAfterAFile) {
  const TempFolder folder;
  const TuneState state = three_trials();
  state.save(folder.path());
  const TuneState read = TuneState::load(folder.path());
  EXPECT_EQ(to_object(read), to_object(state));
  EXPECT_EQ(read.scores(), state.scores());
  EXPECT_EQ(read.words, state.words);
}

TEST(TuneState, RefusesAFolderWithoutOneAndAFileThatIsNone) {
  const TempFolder folder;
  EXPECT_FAILS(TuneState::load(folder.path()), InvalidArgument, "holds no search");
  for (const char* wrong : {"", "{}", "[1]", R"({"version": 2})"}) {
    write_file_atomically(TuneState::file(folder.path()), as_bytes(std::string_view(wrong)));
    EXPECT_FAILS(TuneState::load(folder.path()), Corrupt, "cannot be understood");
  }
}

}  // namespace
}  // namespace trireme::tune
