// The store in an etcd of one or three members, of which some die or hang.
#include "store/etcd_store.h"

#include "base/error.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::store {
namespace {

constexpr auto kFailingCall = 450ms;  // for calls that are to fail
constexpr auto kTtl = 3s;             // of a leader that has time to renew it

std::unique_ptr<Store> open(const EtcdCluster& etcd, std::chrono::milliseconds call_within = 5s) {
  return open_store({.location = etcd.location("job"), .call_within = call_within});
}

/// `call` throws Timeout or IoError that names etcd's advice, and does not hang.
template <typename F>
void expect_gives_up(const F& call) {
  expect_ends_within(kPatience, [&] {
    try {
      call();
      ADD_FAILURE() << "should have failed";
    } catch (const Error& problem) {
      EXPECT_TRUE(dynamic_cast<const Timeout*>(&problem) != nullptr ||
                  dynamic_cast<const IoError*>(&problem) != nullptr);
      EXPECT_THAT(problem.what(), ::testing::HasSubstr("etcdctl endpoint health"));
      EXPECT_THAT(problem.what(), ::testing::HasSubstr("http://127.0.0.1:"));
    }
  });
}

/// Waits until a lease of `ttl` that was granted at the time of this call has run out: a time that etcd measures.
void outlast_lease(const EtcdCluster& etcd, std::chrono::seconds ttl) {
  EtcdClient client({.members = etcd.addresses()});
  const auto lease = client.grant(ttl, Deadline::in(10s));
  client.run({.key = "witness", .puts = {{.key = "witness", .value = "", .lease = lease.id}}, .removals = {}},
             Deadline::in(10s));
  ASSERT_TRUE(eventually([&] { return !client.get("witness", Deadline::in(10s)); }));
}

TEST(EtcdLocation, IsReadFromText) {
  const auto several = parse_etcd_location("etcd://a:1,http://b,[::1]:3,[::2]/big_job-1.0");
  ASSERT_EQ(several.members.size(), 4U);
  EXPECT_EQ(several.members[0].text(), "a:1");
  EXPECT_EQ(several.members[1].text(), "b:2379");
  EXPECT_EQ(several.members[2].text(), "[::1]:3");
  EXPECT_EQ(several.members[3].text(), "[::2]:2379");
  EXPECT_EQ(several.job, "big_job-1.0");
  EXPECT_FALSE(several.tls);
  EXPECT_EQ(parse_etcd_location("etcd://a").job, "default");
  EXPECT_FAILS(parse_etcd_location("etcd://a,/job"), InvalidArgument, "host:port");
  EXPECT_FAILS(parse_etcd_location("etcd://a/"), InvalidArgument, "cannot name a job");
  EXPECT_FAILS(parse_etcd_location("etcd://a,https://b:1/job"), InvalidArgument, "https://b:1", "etcds://");
}

TEST(EtcdLocation, NamesTheFilesForTlsAndForTheUser) {
  const auto location = parse_etcd_location("etcds://a,https://b:1/job?ca=/c.pem&cert=/d.pem&key=/e.pem&auth=/f");
  EXPECT_EQ(location.members[1].text(), "b:1");
  EXPECT_EQ(location.job, "job");
  ASSERT_TRUE(location.tls);
  EXPECT_EQ(location.tls->ca_file, "/c.pem");
  EXPECT_EQ(location.tls->certificate_file, "/d.pem");
  EXPECT_EQ(location.tls->key_file, "/e.pem");
  EXPECT_EQ(location.auth_file, "/f");
  EXPECT_FAILS(parse_etcd_location("etcd://a?ca=/c.pem"), InvalidArgument, "'ca'", "etcds://");
  EXPECT_FAILS(parse_etcd_location("etcds://a?cert=/c.pem"), InvalidArgument, "key=FILE");
  EXPECT_FAILS(parse_etcd_location("etcds://a?auht=/c"), InvalidArgument, "'auht'", "auth");
  EXPECT_FAILS(parse_etcd_location("etcds://a?auth="), InvalidArgument, "'auth'", "no file");
}

TEST(EtcdLocation, ARiskyOneIsWarnedOf) {
  const auto risk = [](const std::string& location) { return etcd_risk(parse_etcd_location(location)); };
  EXPECT_EQ(risk("etcd://127.0.0.1:1,localhost:2"), "");
  EXPECT_THAT(risk("etcd://127.0.0.1:1,b:2"), ::testing::HasSubstr("not encrypted and asks nobody"));
  EXPECT_THAT(risk("etcd://b:2?auth=/f"), ::testing::HasSubstr("sees the password"));
  EXPECT_THAT(risk("etcds://b:2"), ::testing::HasSubstr("does not ask"));
  EXPECT_EQ(risk("etcds://b:2?auth=/f"), "");
  EXPECT_EQ(risk("etcds://b:2?cert=/f&key=/g"), "");
}

TEST(EtcdStore, OutlivesAMemberAndFailsInTimeWithoutAMajority) {
  EtcdCluster etcd({.members = 3});
  const auto store = open(etcd);
  auto leader = open(etcd, 3s)->campaign({.ttl = kTtl});
  leader->commit({{"key", "1"}});
  etcd.kill(0);                                                // the one that was asked so far
  outlast_lease(etcd, kTtl);                                   // which is to be renewed elsewhere
  EXPECT_TRUE(eventually([&] { return leader->leading(); }));  // if it was etcd's leader, that takes a moment
  leader->commit({{"key", "2"}});
  EXPECT_EQ(store->get("key"), "2");

  etcd.kill(1);
  expect_gives_up([&] { leader->commit({{"key", "lost"}}); });
  expect_gives_up([&] { open(etcd, kFailingCall)->get("key"); });
  expect_gives_up([&] { open(etcd, kFailingCall)->campaign({.deadline = Deadline::in(kFailingCall)}); });
  EXPECT_TRUE(eventually([&] { return !leader->leading(); }));  // once its lease has run out
  leader = nullptr;

  etcd.restart(0);
  leader = store->campaign({.ttl = kTtl, .deadline = Deadline::in(kPatience)});
  ASSERT_NE(leader, nullptr);
  leader->commit({{"key", "3"}});
  etcd.stop(0);  // hangs, which looks different from outside
  expect_gives_up([&] { open(etcd, kFailingCall)->list(""); });
  etcd.resume(0);
  EXPECT_EQ(store->get("key"), "3");
}

TEST(EtcdStore, ALateWriteNeverUndoesALaterCommit) {
  EtcdCluster etcd({.members = 3});
  const auto store = open(etcd, 6s);  // of which each member gets a third: etcd may have to elect another leader
  const auto leader = store->campaign({.ttl = 10s});
  leader->commit({{"key", "0"}});
  etcd.stop(0);
  leader->commit({{"key", "old"}});  // lies in the stopped member; another one does it
  leader->commit({{"key", "new"}});
  etcd.resume(0);  // which now does what it was asked, if it may
  etcd.wait_ready(0);
  for (int look = 0; look < 100; ++look) ASSERT_EQ(store->get("key"), "new");
  leader->commit({{"key", "newer"}});
  EXPECT_EQ(store->get("key"), "newer");
}

TEST(EtcdStore, ACommitThatFailedIsSettledByTheNext) {
  EtcdCluster etcd;
  const auto store = open(etcd);
  const auto leader = open(etcd, 2s)->campaign({.ttl = 30s});
  leader->commit({{"key", "0"}});
  for (int i = 0; i < 3; ++i) {
    etcd.stop(0);
    EXPECT_FAILS(leader->commit({{"key", "lost"}, {"lost", "maybe"}}), Timeout, "/v3/kv/txn within 2000 ms");
    etcd.resume(0);
    etcd.wait_ready(0);
    leader->commit({{"key", std::to_string(i)}});
    EXPECT_EQ(store->get("key"), std::to_string(i));
  }
}

TEST(EtcdStore, ALeaderKnowsInTimeThatItsLeaseMayRunOut) {
  EtcdCluster etcd;
  const auto leader = open(etcd)->campaign({.ttl = 1s});
  ASSERT_TRUE(leader->leading());
  etcd.stop(0);
  EXPECT_TRUE(eventually([&] { return !leader->leading(); }, 1s)) << "etcd could give the lead to another by now";
}

TEST(EtcdStore, HistoryIsBounded) {
  constexpr std::uint32_t kKept = 20;
  const EtcdCluster etcd;
  const auto store = open(etcd);
  const auto leader = store->campaign({.ttl = 10s, .kept_commits = kKept});
  EtcdGateway gateway(etcd.access());
  const auto read_first = [&] { gateway.ask("/v3/kv/range", {{"key", "AA=="}, {"revision", "2"}}, Deadline::in(10s)); };
  for (std::uint32_t i = 0; i < kKept; ++i) leader->commit({{"key", std::to_string(i)}});
  read_first();  // still there
  for (std::uint32_t i = 0; i < kKept; ++i) leader->commit({{"key", std::to_string(i)}});
  EXPECT_THROW(read_first(), EtcdCompacted);
  EXPECT_EQ(store->get("key"), std::to_string(kKept - 1));
}

TEST(EtcdStore, ErrorNamesEachFailedMember) {
  const EtcdLocation nobody{.members = {{.host = "127.0.0.1", .port = 1}, {.host = "127.0.0.1", .port = 2}}};
  const auto store = open_etcd_store(nobody, 2s);
  EXPECT_FAILS(store->get("key"), IoError, "127.0.0.1:1 cannot be reached", "127.0.0.1:2 cannot be reached", "2000 ms");
}

}  // namespace
}  // namespace trireme::store
