#include "master/view_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/deadline.h"

namespace trireme::master {
namespace {

using ::testing::HasSubstr;

TEST(JudgeMember, BrieflySilentAndLeftMembersAreNotLost) {
  EXPECT_FALSE(judge_member({.silent_for = 3000ms}, 3s).lost);
  EXPECT_FALSE(judge_member({.left = true, .disconnected = true, .silent_for = 1h}, 3s).lost);
}

TEST(JudgeMember, DeadAndHangingMembersAreNamed) {
  const Health dead = judge_member({.role = cluster::Role::kServer, .slot = 2, .pid = 77, .disconnected = true}, 3s);
  EXPECT_TRUE(dead.lost);
  EXPECT_THAT(dead.reason, HasSubstr("server 2 (pid 77) died"));
  const Health hung = judge_member({.role = cluster::Role::kWorker, .slot = 1, .pid = 78, .silent_for = 3200ms}, 3s);
  EXPECT_TRUE(hung.lost);
  EXPECT_THAT(hung.reason, HasSubstr("worker 1 (pid 78) hangs: no heartbeat for 3.2 s"));
}

TEST(DescribeMissing, NamesEachMember) {
  EXPECT_EQ(describe_missing({.workers = 2}, {}), "server 0, worker 0, worker 1");
  const std::vector<MemberState> here{{.role = cluster::Role::kServer, .slot = 0},
                                      {.role = cluster::Role::kWorker, .slot = 0, .disconnected = true},
                                      {.role = cluster::Role::kWorker, .slot = 1}};
  EXPECT_EQ(describe_missing({.workers = 2}, here), "worker 0");
  EXPECT_EQ(describe_missing({.workers = 0}, here), "");
}

using Kind = ViewDecision::Kind;

/// A job of up to four workers, of which slots 0, 1, 2 are in the view.
ViewInputs three_of_four() {
  return {.shape = {.workers = 4, .min_workers = 2},
          .most_workers = 4,
          .workers = {{.id = 11, .slot = 0, .since = 1, .in_view = true},
                      {.id = 12, .slot = 1, .since = 1, .in_view = true},
                      {.id = 13, .slot = 2, .since = 2, .in_view = true}}};
}

TEST(DecideView, AGoodViewIsKept) { EXPECT_EQ(decide_view(three_of_four()).kind, Kind::kKeep); }

TEST(DecideView, ACheckpointThatIsAskedForBeginsAView) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.save = "asked by the page";
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kRegroup);
  EXPECT_EQ(decide_view(view_inputs).reason, "asked by the page");
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = true;
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kForm);
  view_inputs.workers.front().done = true;
  EXPECT_NE(decide_view(view_inputs).reason, "asked by the page") << "the end makes one anyway";
}

TEST(DecideView, NewcomerTakesPartOnceAllAreReady) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.workers.push_back({.id = 14, .slot = 3, .ready = true});
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kRegroup);
  EXPECT_EQ(decide_view(view_inputs).reason, "worker 3 wants to take part");
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = true;
  const ViewDecision decision = decide_view(view_inputs);
  EXPECT_EQ(decision.kind, Kind::kForm);
  EXPECT_EQ(decision.workers, (std::vector<cluster::MemberId>{11, 12, 13, 14}));
}

TEST(DecideView, OfTwoThatCannotReachEachOtherTheOlderTakesPart) {
  ViewInputs view_inputs = three_of_four();
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = true;
  view_inputs.apart = {{11, 13}};
  const ViewDecision decision = decide_view(view_inputs);
  EXPECT_EQ(decision.kind, Kind::kForm);
  EXPECT_EQ(decision.workers, (std::vector<cluster::MemberId>{11, 12}));
  EXPECT_THAT(decision.reason, HasSubstr("worker 2 is left out: it and worker 0 reach the master, but not each other"));
  view_inputs.shape.min_workers = 3;
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kWait);
  EXPECT_THAT(decide_view(view_inputs).reason, HasSubstr("worker 2 is left out"));
}

TEST(DecideView, AWorkerThatReachesNobodyIsLeftOutHoweverOldItIs) {
  ViewInputs view_inputs = three_of_four();
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = true;
  view_inputs.apart = {{11, 12}, {11, 13}};
  EXPECT_EQ(decide_view(view_inputs).workers, (std::vector<cluster::MemberId>{12, 13}));
  EXPECT_THAT(decide_view(view_inputs).reason, HasSubstr("worker 0 is left out: it and workers 1, 2"));
}

TEST(DecideView, WhoIsLeftOutDisturbsNobody) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.workers.push_back({.id = 14, .slot = 3, .since = 1, .ready = true});
  view_inputs.apart = {{11, 14}};
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kKeep);
  view_inputs.apart.clear();  // they may try again
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kRegroup);
}

TEST(DecideView, LongestMemberIsTheChief) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.workers[0] = {.id = 21, .slot = 0, .ready = true};  // slot 0 again, after its death
  view_inputs.broken = true;
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = true;
  EXPECT_EQ(decide_view(view_inputs).workers, (std::vector<cluster::MemberId>{12, 13, 21}));
}

TEST(DecideView, ThereAreNoMoreWorkersThanLanes) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.workers.push_back({.id = 14, .slot = 3, .ready = true});
  view_inputs.most_workers = 3;
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kKeep);
  view_inputs.workers.erase(view_inputs.workers.begin());  // now there is room for the one in reserve
  view_inputs.broken = true;
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = true;
  EXPECT_EQ(decide_view(view_inputs).workers, (std::vector<cluster::MemberId>{12, 13, 14}));
}

TEST(DecideView, WaitsBelowTheMinimum) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.workers.resize(1);
  view_inputs.broken = true;
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kRegroup);
  view_inputs.workers[0].ready = true;
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kWait);
  EXPECT_EQ(decide_view(view_inputs).reason, "1 of at least 2 workers are here");
  view_inputs.workers.clear();
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kWait);
  view_inputs.broken = false;  // all left of their own will
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kWait);
}

TEST(DecideView, IgnoresNewcomersWhenTheWorkIsDone) {
  ViewInputs view_inputs = three_of_four();
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = worker.done = worker.slot > 0;
  view_inputs.workers.push_back({.id = 14, .slot = 3, .ready = true});
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kKeep);
  view_inputs.workers.erase(view_inputs.workers.begin());  // the chief dies: the others make up for it
  view_inputs.broken = true;
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kForm);
  EXPECT_EQ(decide_view(view_inputs).workers, (std::vector<cluster::MemberId>{12, 13}));
}

TEST(DecideView, RegroupsToPlaceParametersAnew) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.place_anew = "server 1 wants to take part";
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kRegroup);
  EXPECT_EQ(decide_view(view_inputs).reason, "server 1 wants to take part");
  view_inputs.workers.front().done = true;  // not worth it any more
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kKeep);
}

TEST(DecideView, WithoutAnyServerAllWait) {
  ViewInputs view_inputs = three_of_four();
  view_inputs.broken = view_inputs.no_server = true;
  for (ViewCandidate& worker : view_inputs.workers) worker.ready = true;
  EXPECT_EQ(decide_view(view_inputs).kind, Kind::kWait);
  EXPECT_EQ(decide_view(view_inputs).reason, "no server is left");
}

}  // namespace
}  // namespace trireme::master
