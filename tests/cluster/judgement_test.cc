#include "trireme/cluster/judgement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/deadline.h"

namespace trireme::cluster {
namespace {

using ::testing::HasSubstr;

TEST(JudgeMember, TheQuietAndTheLeftAreWell) {
  EXPECT_FALSE(judge_member({.silent_for = 3000ms}, 3s).lost);
  EXPECT_FALSE(judge_member({.left = true, .disconnected = true, .silent_for = 1h}, 3s).lost);
}

TEST(JudgeMember, TheDeadAndTheHungAreNamed) {
  const Health dead = judge_member({.role = Role::kServer, .slot = 2, .pid = 77, .disconnected = true}, 3s);
  EXPECT_TRUE(dead.lost);
  EXPECT_THAT(dead.reason, HasSubstr("server 2 (pid 77) died"));
  const Health hung = judge_member({.role = Role::kWorker, .slot = 1, .pid = 78, .silent_for = 3200ms}, 3s);
  EXPECT_TRUE(hung.lost);
  EXPECT_THAT(hung.reason, HasSubstr("worker 1 (pid 78) hangs: no heartbeat for 3.2 s"));
}

TEST(DescribeMissing, NamesEachOne) {
  EXPECT_EQ(describe_missing({.workers = 2}, {}), "server 0, worker 0, worker 1");
  const std::vector<MemberState> here{{.role = Role::kServer, .slot = 0},
                                      {.role = Role::kWorker, .slot = 0, .disconnected = true},
                                      {.role = Role::kWorker, .slot = 1}};
  EXPECT_EQ(describe_missing({.workers = 2}, here), "worker 0");
  EXPECT_EQ(describe_missing({.workers = 0}, here), "");
}

using Kind = ViewDecision::Kind;

/// A job of up to four workers, of which slots 0, 1, 2 are in the view.
Situation three_of_four() {
  return {.shape = {.workers = 4, .min_workers = 2},
          .most_workers = 4,
          .workers = {{.id = 11, .slot = 0, .since = 1, .in_view = true},
                      {.id = 12, .slot = 1, .since = 1, .in_view = true},
                      {.id = 13, .slot = 2, .since = 2, .in_view = true}}};
}

TEST(DecideView, AGoodViewIsKept) { EXPECT_EQ(decide_view(three_of_four()).kind, Kind::kKeep); }

TEST(DecideView, ANewcomerIsTakenInOnceAllHaveCome) {
  Situation situation = three_of_four();
  situation.workers.push_back({.id = 14, .slot = 3, .ready = true});
  EXPECT_EQ(decide_view(situation).kind, Kind::kRegroup);
  EXPECT_EQ(decide_view(situation).reason, "worker 3 wants to take part");
  for (ViewCandidate& worker : situation.workers) worker.ready = true;
  const ViewDecision decision = decide_view(situation);
  EXPECT_EQ(decision.kind, Kind::kForm);
  EXPECT_EQ(decision.workers, (std::vector<MemberId>{11, 12, 13, 14}));
}

TEST(DecideView, WhoHasBeenHereLongestIsTheChief) {
  Situation situation = three_of_four();
  situation.workers[0] = {.id = 21, .slot = 0, .ready = true};  // slot 0 again, after its death
  situation.broken = true;
  for (ViewCandidate& worker : situation.workers) worker.ready = true;
  EXPECT_EQ(decide_view(situation).workers, (std::vector<MemberId>{12, 13, 21}));
}

TEST(DecideView, ThereAreNoMoreWorkersThanLanes) {
  Situation situation = three_of_four();
  situation.workers.push_back({.id = 14, .slot = 3, .ready = true});
  situation.most_workers = 3;
  EXPECT_EQ(decide_view(situation).kind, Kind::kKeep);
  situation.workers.erase(situation.workers.begin());  // now there is room for the one in reserve
  situation.broken = true;
  for (ViewCandidate& worker : situation.workers) worker.ready = true;
  EXPECT_EQ(decide_view(situation).workers, (std::vector<MemberId>{12, 13, 14}));
}

TEST(DecideView, TooFewWait) {
  Situation situation = three_of_four();
  situation.workers.resize(1);
  situation.broken = true;
  EXPECT_EQ(decide_view(situation).kind, Kind::kRegroup);
  situation.workers[0].ready = true;
  EXPECT_EQ(decide_view(situation).kind, Kind::kWait);
  EXPECT_EQ(decide_view(situation).reason, "1 of at least 2 workers are here");
  situation.workers.clear();
  EXPECT_EQ(decide_view(situation).kind, Kind::kWait);
  situation.broken = false;  // all left of their own will
  EXPECT_EQ(decide_view(situation).kind, Kind::kWait);
}

TEST(DecideView, NobodyComesInWhenTheWorkIsDone) {
  Situation situation = three_of_four();
  for (ViewCandidate& worker : situation.workers) worker.ready = worker.done = worker.slot > 0;
  situation.workers.push_back({.id = 14, .slot = 3, .ready = true});
  EXPECT_EQ(decide_view(situation).kind, Kind::kKeep);
  situation.workers.erase(situation.workers.begin());  // the chief dies: the others make up for it
  situation.broken = true;
  EXPECT_EQ(decide_view(situation).kind, Kind::kForm);
  EXPECT_EQ(decide_view(situation).workers, (std::vector<MemberId>{12, 13}));
}

TEST(DecideView, ParametersThatShouldMoveAreAReason) {
  Situation situation = three_of_four();
  situation.place_anew = "server 1 wants to take part";
  EXPECT_EQ(decide_view(situation).kind, Kind::kRegroup);
  EXPECT_EQ(decide_view(situation).reason, "server 1 wants to take part");
  situation.workers.front().done = true;  // not worth it any more
  EXPECT_EQ(decide_view(situation).kind, Kind::kKeep);
}

TEST(DecideView, WithoutAnyServerAllWait) {
  Situation situation = three_of_four();
  situation.broken = situation.no_server = true;
  for (ViewCandidate& worker : situation.workers) worker.ready = true;
  EXPECT_EQ(decide_view(situation).kind, Kind::kWait);
  EXPECT_EQ(decide_view(situation).reason, "no server is left");
}

}  // namespace
}  // namespace trireme::cluster
