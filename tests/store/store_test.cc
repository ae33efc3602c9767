// What every store promises, whoever keeps it.
#include "store/store.h"

#include <atomic>
#include <thread>

#include "base/error.h"
#include "tests/store/store_places.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::store {
namespace {

class StoreContract : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Leadership> lead(Store& store, const std::string& name, Deadline deadline = Deadline::in(10s),
                                          std::chrono::milliseconds ttl = 10s) {
    return store.campaign({.candidate = {.name = name, .value = name + ":4711"}, .ttl = ttl, .deadline = deadline});
  }
  static Deadline now() { return Deadline::in(0s); }

  std::unique_ptr<Place> place_ = make_place(GetParam());
  std::unique_ptr<Store> store_ = place_->open();
};

using Entries = std::map<std::string, std::string>;

TEST_P(StoreContract, HoldsWhatWasCommitted) {
  const auto leader = lead(*store_, "a");
  EXPECT_EQ(store_->get("view"), std::nullopt);
  leader->commit({{"view", "1"}, {"plan", "10 epochs"}, {"lease/1", "w1"}, {"lease/2", "w2"}});
  leader->commit({{"view", "2"}, {"lease/1", std::nullopt}, {"never there", std::nullopt}});
  EXPECT_EQ(store_->get("view"), "2");
  EXPECT_EQ(store_->get("lease/1"), std::nullopt);
  EXPECT_EQ(store_->list("lease/"), (Entries{{"lease/2", "w2"}}));
  EXPECT_EQ(store_->list(""), (Entries{{"view", "2"}, {"plan", "10 epochs"}, {"lease/2", "w2"}}));
  EXPECT_EQ(store_->list("nothing"), Entries{});
  leader->commit({});
}

TEST_P(StoreContract, KeepsAnyBytes) {
  const auto leader = lead(*store_, "a");
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  const Entries odd = {{every_byte, "a"},        {std::string(1, '\0'), every_byte},
                       {"\xff", "last"},         {"\xff\xff", "laster"},
                       {"quote ' \" ; --", "b"}, {"ключ/../%00", ""},
                       {" ", std::string(3, 0)}, {"/", "\n"}};
  Changes changes;
  for (const auto& [key, value] : odd) changes[key] = value;
  leader->commit(changes);
  EXPECT_EQ(store_->list(""), odd);
  EXPECT_EQ(store_->list("\xff"), (Entries{{"\xff", "last"}, {"\xff\xff", "laster"}}));
  EXPECT_EQ(store_->get("ключ/../%00"), "") << "empty is not absent";
  EXPECT_EQ(store_->get(std::string(1, '\0')), every_byte);
}

TEST_P(StoreContract, KeepsLargeValuesAndManyEntries) {
  const auto leader = lead(*store_, "a");
  std::string large(1024UL * 1024, 'x');
  for (std::size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i * 31);
  leader->commit({{"large", large}});
  EXPECT_TRUE(store_->get("large") == large);
  Changes many;
  for (int i = 0; i < 100; ++i) many[fmt::format("many/{:03}", i)] = std::to_string(i);
  leader->commit(many);
  const Entries found = store_->list("many/");
  ASSERT_EQ(found.size(), 100U);
  for (const auto& [key, value] : found) EXPECT_EQ(many.at(key), value);
  EXPECT_EQ(store_->list("").size(), 101U);
}

TEST_P(StoreContract, RefusesTooLargeCommits) {
  const auto leader = lead(*store_, "a");
  Changes too_many;
  for (std::size_t i = 0; i <= kMostChanges; ++i) too_many[std::to_string(i)] = "";
  EXPECT_FAILS(leader->commit(too_many), InvalidArgument, "101 changes", "split");
  EXPECT_FAILS(leader->commit({{"key", std::string(kMostCommitBytes, 'x')}}), InvalidArgument, "in a file");
  EXPECT_FAILS(leader->commit({{"a", "1"}, {"", "2"}}), InvalidArgument, "key");
  EXPECT_EQ(store_->list(""), Entries{}) << "none of a refused commit is written";
  leader->commit({{"key", std::string(kMostCommitBytes - 3, 'x')}});
}

TEST_P(StoreContract, CommitsAreAtomicForReaders) {
  const auto leader = lead(*store_, "a");
  leader->commit({{"pair/a", "0"}, {"pair/b", "0"}});
  std::atomic<bool> over = false;
  std::jthread writer([&] {
    for (int i = 1; i <= 60; ++i) leader->commit({{"pair/a", std::to_string(i)}, {"pair/b", std::to_string(i)}});
    over = true;
  });
  const auto other = place_->open();
  int looks = 0;
  for (; !over || looks == 0; ++looks) {
    const Entries pair = other->list("pair/");
    ASSERT_EQ(pair.at("pair/a"), pair.at("pair/b"));
  }
  EXPECT_EQ(other->get("pair/a"), "60");
}

TEST_P(StoreContract, HasOneLeaderAtATime) {
  const auto other = place_->open();
  EXPECT_FALSE(other->leader().has_value());
  const auto a = lead(*store_, "a");
  ASSERT_TRUE(a && a->leading());
  EXPECT_EQ(lead(*other, "b", now()), nullptr);
  EXPECT_EQ(lead(*store_, "a again", Deadline::in(150ms)), nullptr) << "not twice in one process either";
  const auto seen = other->leader();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->name, "a");
  EXPECT_EQ(seen->value, "a:4711");
  EXPECT_EQ(seen->term, a->term());
  a->commit({{"key", "of a"}});

  a->resign();
  EXPECT_FALSE(a->leading());
  EXPECT_FALSE(other->leader().has_value());
  const auto b = lead(*other, "b", now());
  ASSERT_TRUE(b && b->leading());
  EXPECT_GT(b->term(), a->term());
  EXPECT_EQ(store_->leader()->name, "b");
  EXPECT_FAILS(a->commit({{"key", "of a, late"}}), StaleView, fmt::format("term {}", a->term()), "campaign again");
  a->resign();  // again: no harm, least of all to b
  EXPECT_EQ(other->get("key"), "of a");
  b->commit({{"key", "of b"}});
  EXPECT_EQ(store_->get("key"), "of b");
}

TEST_P(StoreContract, ALeaderThatVanishesIsReplaced) {
  const auto other = place_->open();
  auto a = lead(*store_, "a", Deadline::in(10s), /*ttl=*/2s);
  a->commit({{"key", "of a"}});
  const auto term = a->term();
  a.reset();  // its lease is not renewed any more, nor given back
  const auto b = lead(*other, "b", Deadline::in(kPatience));
  ASSERT_NE(b, nullptr);
  EXPECT_GT(b->term(), term);
  EXPECT_EQ(other->get("key"), "of a");
}

TEST_P(StoreContract, FormerLeaderCannotWrite) {
  const auto other = place_->open();
  const auto a = lead(*store_, "a");
  a->commit({{"key", "of a"}});
  place_->depose(a->term());
  const auto b = lead(*other, "b");
  ASSERT_NE(b, nullptr);
  b->commit({{"key", "of b"}});
  EXPECT_FAILS(a->commit({{"key", "of a, late"}, {"other", "x"}}), StaleView, "is over");
  EXPECT_FALSE(a->leading());
  EXPECT_FAILS(a->commit({}), StaleView, "is over");
  EXPECT_TRUE(a->over());
  EXPECT_EQ(store_->list(""), (Entries{{"key", "of b"}}));
  EXPECT_TRUE(b->leading());
}

TEST_P(StoreContract, ManyCandidatesTakeTurns) {
  std::atomic<int> leaders = 0;
  std::vector<std::jthread> candidates;
  for (int i = 0; i < 4; ++i) {
    candidates.emplace_back([&, i] {
      const auto mine = place_->open();
      for (int turn = 0; turn < 2; ++turn) {
        const auto leader = lead(*mine, fmt::format("candidate {}", i), Deadline::in(30s));
        ASSERT_NE(leader, nullptr);
        EXPECT_EQ(++leaders, 1);
        const auto count = std::stoi(mine->get("count").value_or("0"));
        leader->commit({{"count", std::to_string(count + 1)}});
        --leaders;
        leader->resign();
      }
    });
  }
  candidates.clear();
  EXPECT_EQ(store_->get("count"), "8");
}

TEST_P(StoreContract, ALeadershipMayOutliveItsStore) {
  const auto leader = lead(*store_, "a");
  store_ = place_->open();
  leader->commit({{"key", "value"}});
  EXPECT_EQ(store_->get("key"), "value");
}

INSTANTIATE_TEST_SUITE_P(Every, StoreContract, ::testing::ValuesIn(all_tenants()), tenant_name);

TEST(OpenStore, UnknownLocationListsTheValidOnes) {
  EXPECT_NE(open_store({}), nullptr);
  EXPECT_FAILS(open_store({.location = ""}), InvalidArgument, "memory:", "sqlite:", "etcd://");
  EXPECT_FAILS(open_store({.location = "mysql://host/db"}), InvalidArgument, "'mysql://host/db' is not a store");
  EXPECT_FAILS(open_store({.location = "etcd://"}), InvalidArgument, "names no member");
  EXPECT_FAILS(open_store({.location = "etcd://https://a:2379"}), InvalidArgument, "use etcds://");
  EXPECT_FAILS(open_store({.location = "etcd://a:b"}), InvalidArgument, "'a:b'", "port");
  EXPECT_FAILS(open_store({.location = "etcd://a:2379/x/y"}), InvalidArgument, "'x/y' cannot name a job");
#ifndef TRIREME_HAS_SQLITE
  EXPECT_FAILS(open_store({.location = "job.db"}), InvalidArgument, "libsqlite3-dev", "memory:");
#endif
}

TEST(MemoryStore, CanBeMadeUnreachable) {
  const auto space = std::make_shared<MemorySpace>();
  const auto store = open_memory_store(space);
  const auto leader = store->campaign({.candidate = {.name = "a"}});
  space->set_reachable(false);
  EXPECT_FALSE(leader->leading());
  EXPECT_FAILS(store->get("key"), IoError, "out of reach");
  EXPECT_FAILS(leader->commit({{"key", "1"}}), IoError, "out of reach");
  EXPECT_FAILS(store->campaign({.deadline = Deadline::in(10ms)}), IoError, "out of reach");
  space->set_reachable(true);
  EXPECT_TRUE(leader->leading());
  EXPECT_EQ(store->get("key"), std::nullopt);
}

}  // namespace
}  // namespace trireme::store
