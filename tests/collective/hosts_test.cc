// Two hosts, as networks of this machine with a cable between them: two ranks on each.
#include <set>

#include "collective/communicator.h"
#include "tests/collective/reference.h"
#include "tests/collective/suite.h"
#include "tests/collective/testing.h"
#include "tests/support/own_network.h"
#include "tests/support/processes.h"

namespace trireme::collective {
namespace {

constexpr const char* kCable = "trireme0";
constexpr std::uint32_t kHostRanks = 4;
constexpr std::size_t kHostCount = 2u << 20;  // 8 MiB of floats

std::string address_of(Rank rank) { return rank < 2 ? "10.99.0.1" : "10.99.0.2"; }

/// Ranks 0 and 2 make the networks of their hosts, 1 and 3 follow them there.
void enter_host(Rank rank, Talk& test) {
  const auto tell = [&](bool done) { test.say(done); };
  const pid_t first = test.hear();  // the process of rank 0; of no meaning to itself
  switch (rank) {
    case 0:
      return tell(enter_own_network());
    case 1:
      enter_namespaces_of(first, /*network=*/true);
      return tell(true);
    case 2:
      enter_namespaces_of(first, /*network=*/false);
      return tell(::unshare(CLONE_NEWNET) == 0);
    default:
      enter_namespaces_of(test.hear(), /*network=*/true);
      return tell(true);
  }
}

/// Bytes over the cable in each direction while `work` is done; as rank 0 sees it.
template <typename Work>
CableTraffic traffic_of(Communicator& ranks, Work work) {
  ranks.run(barrier());
  const CableTraffic before = cable_traffic(kCable);
  work();
  ranks.run(barrier());
  const CableTraffic after = cable_traffic(kCable);
  return {after.received - before.received, after.sent - before.sent};
}

void expect_each_sum_once(Communicator& ranks) {
  const auto expected = slow_reduction(DType::kF32, ReduceOp::kSum, kHostCount / 8, kHostRanks);
  auto data = test_input(DType::kF32, kHostCount / 8, ranks.rank());
  data.resize(kHostCount * sizeof(float));  // the rest is zero
  const std::uint64_t sent = ranks.traffic().sent_bytes;
  const CableTraffic traffic =
      traffic_of(ranks, [&] { ranks.run(all_reduce(Array(DType::kF32, data.data(), kHostCount))); });
  EXPECT_EQ(difference(DType::kF32, expected, Bytes(data).first(expected.size())), "");
  // The size of the data once in each direction; all pairs of ranks would make it twice.
  EXPECT_GT(traffic.sent, data.size());
  EXPECT_LT(traffic.sent, data.size() * 13 / 10);
  EXPECT_LT(traffic.received, data.size() * 13 / 10);
  const bool leads = ranks.rank() % 2 == 0;
  EXPECT_EQ(ranks.traffic().sent_bytes - sent > data.size() / 2, leads) << "one rank of each host uses the network";
}

void be_a_rank(Rank rank, Talk& test) {
  enter_host(rank, test);
  const std::string step = test.hear();
  if (step == "cable to") add_cable(kCable, test.hear());
  if (rank % 2 == 0) test.say("ready");
  test.hear();  // the cable is there
  if (rank % 2 == 0) {
    bring_up("lo", "127.0.0.1");
    bring_up(kCable, address_of(rank));
  }
  test.say("up");
  test.hear();  // both ends are up
  Endpoint endpoint({.host = address_of(rank), .secret = kSecret});
  test.say(endpoint.address());
  const auto members = test.hear().get<std::vector<net::Address>>();
  Communicator ranks(endpoint, {.rank = rank, .members = members, .silent_after = 4s});
  EXPECT_EQ(ranks.transport(), "shm+tls");
  expect_each_sum_once(ranks);
  // Everything works across hosts; sums of 16-bit numbers are rounded once more.
  check_everything(ranks, {.large = Scope::Large::kFew, .types = {DType::kF32, DType::kI8}});
  ranks.run(barrier());
  test.say("done");
  test.hear();
  if (rank == 0) bring_down(kCable);
  try {
    std::vector<float> more(1000);
    for (;;) ranks.run(all_reduce(std::span(more)), Deadline::in(1h));  // silence is noticed long before
  } catch (const Timeout& problem) {
    test.say(problem.what());
  }
  std::set<std::string> unreachable;
  for (const net::Address& address : endpoint.take_unreachable()) unreachable.insert(address.host);
  test.say(unreachable);
  test.hear();
}

TEST(Hosts, TheNetworkCarriesEachSumOnce) {
  std::vector<Process> ranks;
  for (Rank rank = 0; rank < kHostRanks; ++rank) {
    ranks.emplace_back([rank](Talk& test) { be_a_rank(rank, test); });
  }
  const auto tell_all = [&](const nlohmann::json& words) {
    for (Process& rank : ranks) rank.talk().say(words);
  };
  ranks[0].talk().say(ranks[0].pid());
  if (ranks[0].talk().hear() == false) GTEST_SKIP() << "network namespaces are not permitted here";
  for (const Rank rank : {1u, 2u, 3u}) {
    ranks[rank].talk().say(ranks[0].pid());
    if (rank == 3) ranks[rank].talk().say(ranks[2].pid());
    ASSERT_EQ(ranks[rank].talk().hear(), true) << rank;
  }
  ranks[0].talk().say("cable to");
  ranks[0].talk().say(ranks[2].pid());
  for (const Rank rank : {1u, 2u, 3u}) ranks[rank].talk().say("no cable");
  for (const Rank rank : {0u, 2u}) ASSERT_EQ(ranks[rank].talk().hear(), "ready");
  tell_all("the cable is there");
  for (Process& rank : ranks) ASSERT_EQ(rank.talk().hear(), "up");
  tell_all("both ends are up");
  std::vector<net::Address> members;
  for (Process& rank : ranks) members.push_back(rank.talk().hear().get<net::Address>());
  EXPECT_EQ(members[0].host_id, members[1].host_id);
  EXPECT_NE(members[0].host_id, members[2].host_id);
  tell_all(members);
  for (Process& rank : ranks) ASSERT_EQ(rank.talk().hear(), "done");

  // The cable is pulled: nobody's connection ends, nothing comes any more.
  std::size_t silent_pairs = 0;
  tell_all("pull it");
  for (Rank rank = 0; rank < kHostRanks; ++rank) {
    const std::string problem = ranks[rank].talk().hear();
    // Whose silence is noticed first is chance; it is a rank of the other host.
    const auto named = [&](std::string_view other) { return problem.find(other) != std::string::npos; };
    EXPECT_TRUE(rank < 2 ? named("rank 2") || named("rank 3") : named("rank 0") || named("rank 1"))
        << rank << ": " << problem;
    const auto unreachable = ranks[rank].talk().hear().get<std::set<std::string>>();
    for (const std::string& host : unreachable) EXPECT_EQ(host, address_of(rank < 2 ? 2 : 0)) << rank;
    silent_pairs += unreachable.size();
  }
  EXPECT_GT(silent_pairs, 0u) << "somebody notes whom it cannot reach";
  tell_all("the end");
  for (Process& rank : ranks) EXPECT_EQ(rank.wait(), 0);
}

}  // namespace
}  // namespace trireme::collective
