// Leaders are processes here: they are killed and stopped. They are forked before this one has threads.
#include "base/error.h"
#include "store/store.h"
#include "tests/store/store_places.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/processes.h"

namespace trireme::store {
namespace {

/// Leads until it is killed; commits what the test says, and tells how that went.
void lead_and_obey(Store& store, Campaign campaign, Talk& test) {
  campaign.candidate = {.name = "the first", .value = "first:1"};
  const auto leader = store.campaign(campaign);
  leader->commit({{"key", "of the first"}});
  test.say(leader->term());
  for (;;) {
    const auto value = test.hear().get<std::string>();
    const bool led = leader->leading();
    try {
      leader->commit({{"key", value}});
      test.say({{"led", led}, {"outcome", "written"}});
    } catch (const StaleView&) {
      test.say({{"led", led}, {"outcome", "stale"}});
    }
  }
}

/// Takes the lead after another lost it.
std::unique_ptr<Leadership> take_over(Store& store) {
  return store.campaign({.candidate = {.name = "the second"}, .deadline = Deadline::in(kPatience)});
}

/// The first is killed; its successor finds what it left. Sets `in_time` if it leads within the 3 s that are promised.
void test_a_successor(const std::function<std::unique_ptr<Store>()>& open, bool& in_time) {
  const auto store = open();
  Process first([&](Talk& test) { lead_and_obey(*open(), {}, test); });
  const auto term = first.talk().hear().get<std::uint64_t>();
  EXPECT_EQ(store->leader()->value, "first:1");
  EXPECT_EQ(store->campaign({.deadline = Deadline::in(0s)}), nullptr);
  first.signal(SIGKILL);
  const Deadline promised = Deadline::in(3s);
  const auto second = take_over(*store);
  in_time = !promised.passed();
  ASSERT_NE(second, nullptr);
  EXPECT_GT(second->term(), term);
  EXPECT_EQ(store->get("key"), "of the first");
  second->commit({{"key", "of the second"}});
}

/// On a busy machine any successor may be late; what is slow by design is late each time.
void expect_a_quick_successor(const std::function<std::unique_ptr<Store>()>& open) {
  bool in_time = false;
  for (int attempt = 0; attempt < 5 && !in_time && !::testing::Test::HasFailure(); ++attempt) {
    test_a_successor(open, in_time);
  }
  EXPECT_TRUE(in_time);
}

TEST(EtcdProcesses, AKilledLeaderIsReplacedWithinThreeSeconds) {
  const EtcdCluster etcd({.heartbeat = 100ms, .election_timeout = 1000ms});  // its own defaults: leases of 2 s or more
  expect_a_quick_successor([&] { return open_store({.location = etcd.location("job")}); });
}

TEST(EtcdProcesses, StoppedLeaderCannotWriteAfterItsSuccessor) {
  EtcdPlace place;
  const auto store = place.open();
  Process first([&](Talk& test) { lead_and_obey(*place.open(), {.ttl = 3s}, test); });
  first.talk().hear();
  first.stop();
  const auto second = take_over(*store);
  ASSERT_NE(second, nullptr);
  second->commit({{"key", "of the second"}});
  first.talk().say("late");
  first.signal(SIGCONT);
  EXPECT_EQ(first.talk().hear(), (nlohmann::json{{"led", false}, {"outcome", "stale"}}));
  EXPECT_EQ(store->get("key"), "of the second");
}

#ifdef TRIREME_HAS_SQLITE

TEST(SqliteProcesses, AKilledLeaderIsReplacedAtOnce) {
  SqlitePlace place;
  expect_a_quick_successor([&] { return place.open(); });
}

TEST(SqliteProcesses, AStoppedLeaderKeepsTheLead) {  // the lock is its as long as it lives
  SqlitePlace place;
  const auto store = place.open();
  Process first([&](Talk& test) { lead_and_obey(*place.open(), {}, test); });
  first.talk().hear();
  first.stop();
  EXPECT_EQ(store->campaign({.deadline = Deadline::in(200ms)}), nullptr);
  EXPECT_EQ(store->leader()->name, "the first");
  first.signal(SIGCONT);
  first.talk().say("late");
  EXPECT_EQ(first.talk().hear(), (nlohmann::json{{"led", true}, {"outcome", "written"}}));
}

#endif  // TRIREME_HAS_SQLITE

}  // namespace
}  // namespace trireme::store
