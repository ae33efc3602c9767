#include "master/member_table.h"

#include "base/error.h"
#include "tests/master/recording_session.h"
#include "tests/support/expect_fails.h"

namespace trireme::master {
namespace {

using cluster::Role;
using ::testing::ElementsAre;

cluster::MemberInfo member(cluster::MemberId id, std::uint32_t slot) { return {.id = id, .slot = slot, .pid = 100}; }

/// Workers 11 and 12 at slots 1 and 0, server 21 at slot 0.
MemberTable three_members() {
  MemberTable table;
  table.add(member(11, 1), Role::kWorker);
  table.add(member(12, 0), Role::kWorker);
  table.add(member(21, 0), Role::kServer);
  return table;
}

TEST(MemberTable, FindsMembersById) {
  MemberTable table = three_members();
  EXPECT_EQ(table.find(11)->info.slot, 1);
  EXPECT_EQ(table.find(11)->name(), "worker 1");
  EXPECT_EQ(table.find(21)->name(), "server 0");
  EXPECT_EQ(table.find(99), nullptr);
}

TEST(MemberTable, FindsTheLivingByRoleAndSlot) {
  MemberTable table = three_members();
  EXPECT_EQ(table.living(Role::kWorker, 1)->info.id, 11);
  EXPECT_EQ(table.living(Role::kServer, 0)->info.id, 21);
  EXPECT_EQ(table.living(Role::kServer, 1), nullptr);
  table.find(11)->state.disconnected = true;
  EXPECT_EQ(table.living(Role::kWorker, 1), nullptr);
  table.add(member(13, 1), Role::kWorker);
  EXPECT_EQ(table.living(Role::kWorker, 1)->info.id, 13);
}

TEST(MemberTable, AMemberThatLeftOrLostItsConnectionIsNotAlive) {
  MemberTable table = three_members();
  EXPECT_TRUE(table.any_alive(Role::kServer));
  table.find(21)->state.left = true;
  EXPECT_FALSE(table.any_alive(Role::kServer));
  EXPECT_TRUE(table.any_alive(Role::kWorker));
  table.find(11)->state.disconnected = true;
  table.find(12)->state.left = true;
  EXPECT_FALSE(table.any_alive(Role::kWorker));
}

TEST(MemberTable, ListsLivingWorkersBySlot) {
  MemberTable table = three_members();
  EXPECT_THAT(table.workers(), ElementsAre(12, 11));
  table.find(12)->state.left = true;
  EXPECT_THAT(table.workers(), ElementsAre(11));
}

TEST(MemberTable, CandidatesHoldTheInputsOfTheViewPolicy) {
  MemberTable table = three_members();
  table.find(11)->in_view = true;
  table.find(11)->info.since = 4;
  table.find(12)->done = true;
  table.find(12)->waits_for_view.emplace(std::make_shared<RecordingSession>(1), net::FrameHeader{});
  const std::vector<ViewCandidate> candidates = table.candidates();
  ASSERT_EQ(candidates.size(), 2);  // no servers
  EXPECT_EQ(candidates[0].id, 11);
  EXPECT_EQ(candidates[0].since, 4);
  EXPECT_TRUE(candidates[0].in_view);
  EXPECT_FALSE(candidates[0].ready);
  EXPECT_FALSE(candidates[0].done);
  EXPECT_EQ(candidates[1].slot, 0);
  EXPECT_FALSE(candidates[1].in_view);
  EXPECT_TRUE(candidates[1].ready);
  EXPECT_TRUE(candidates[1].done);
}

TEST(MemberTable, StatesIncludeDeadMembers) {
  MemberTable table = three_members();
  table.find(12)->state.left = true;
  const auto states = table.states();
  ASSERT_EQ(states.size(), 3);
  EXPECT_EQ(std::ranges::count_if(states, &MemberState::left), 1);
  EXPECT_EQ(std::ranges::count(states, Role::kServer, &MemberState::role), 1);
}

TEST(MemberTable, EnteringAViewMarksItsMembersAndRemovesDeadOnes) {
  MemberTable table = three_members();
  table.find(12)->state.disconnected = true;
  table.find(21)->in_view = true;
  cluster::MemberInfo worker = member(11, 1);
  worker.since = 5;
  table.enter({.view = 5, .workers = {worker}, .servers = {}});
  EXPECT_EQ(table.find(12), nullptr);
  EXPECT_TRUE(table.find(11)->in_view);
  EXPECT_EQ(table.find(11)->info.since, 5);
  EXPECT_FALSE(table.find(21)->in_view);
}

TEST(MemberTable, MembersOfAnotherMastersViewAreRememberedAsUnheard) {
  MemberTable table;
  EXPECT_FALSE(table.any_server_unheard());
  const auto heard_at = Deadline::Clock::time_point() + 7s;
  table.remember({.view = 3, .workers = {member(1, 0)}, .servers = {member(2, 0)}}, heard_at);
  EXPECT_TRUE(table.any_server_unheard());
  EXPECT_TRUE(table.find(1)->in_view);
  EXPECT_FALSE(table.find(1)->heard);
  EXPECT_EQ(table.find(1)->last_heard, heard_at);
  EXPECT_EQ(table.find(2)->state.role, Role::kServer);
  table.find(2)->heard = true;
  EXPECT_FALSE(table.any_server_unheard());
  table.find(2)->heard = false;
  table.find(2)->state.disconnected = true;
  EXPECT_FALSE(table.any_server_unheard());
}

TEST(Member, AnswersAWaitingRequestOnce) {
  MemberTable table = three_members();
  const auto session = std::make_shared<RecordingSession>(5);
  Member& waiting = *table.find(11);
  waiting.done = true;
  waiting.waits_for_view.emplace(session, net::FrameHeader{.request = 9});
  waiting.answer({.member = 11, .over = true}, waiting.last_heard);
  EXPECT_FALSE(waiting.waits_for_view);
  EXPECT_FALSE(waiting.done);
  EXPECT_TRUE(session->take<cluster::JoinReply>().over);
  EXPECT_EQ(session->answers(), 0);
}

TEST(Member, RefusalArrivesAsATimeoutWithItsReason) {
  MemberTable table = three_members();
  const auto session = std::make_shared<RecordingSession>(5);
  table.find(11)->waits_for_view.emplace(session, net::FrameHeader{});
  table.find(11)->refuse("server 0 did not come");
  EXPECT_FALSE(table.find(11)->waits_for_view);
  EXPECT_FAILS(session->take<cluster::JoinReply>(), Timeout, "server 0 did not come");
}

}  // namespace
}  // namespace trireme::master
