// A rank is killed, or stopped, in the middle of each collective: who hears of it, what, and when. Ranks are processes.
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "collective/communicator.h"
#include "tests/collective/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/processes.h"

namespace trireme::collective {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::size_t kCount = 262'144;  // 1 MiB: several blocks in shared memory, more than a socket holds
constexpr auto kHangDeadline = 2000ms;   // long enough to tell a silent rank

const std::vector<OperationKind> kKinds = {
    OperationKind::kBarrier,   OperationKind::kAllReduce, OperationKind::kReduceScatter, OperationKind::kAllGather,
    OperationKind::kBroadcast, OperationKind::kReduce,    OperationKind::kGather,        OperationKind::kScatter,
    OperationKind::kAllToAll,  OperationKind::kSend};

/// The promises: a death is noticed within a second, a hang (with deadlines shorter than that) within three. On a busy
/// machine each rank may be late; what is slow by design is never in time.
constexpr auto kDeathNoticed = 1s;
constexpr auto kHangNoticed = 3s;

/// One turn of the collective. `kSend` is a ring of messages.
void take_turn(Communicator& ranks, OperationKind kind, std::span<float> in, std::span<float> out) {
  const Rank rank = ranks.rank();
  const Rank root = 1 % ranks.size();
  const std::size_t part = kCount / ranks.size();
  const std::size_t whole = part * ranks.size();
  switch (kind) {
    case OperationKind::kBarrier:
      return ranks.run(barrier());
    case OperationKind::kAllReduce:
      return ranks.run(all_reduce(ConstArray(in), Array(out)));
    case OperationKind::kReduceScatter:
      return ranks.run(reduce_scatter(ConstArray(in.first(whole)), Array(out.first(part))));
    case OperationKind::kAllGather:
      return ranks.run(all_gather(ConstArray(in.first(part)), Array(out.first(whole))));
    case OperationKind::kBroadcast:
      return ranks.run(broadcast(Array(out), root));
    case OperationKind::kReduce:
      return ranks.run(reduce(ConstArray(in), Array(out), root));
    case OperationKind::kGather:
      return ranks.run(gather(ConstArray(in.first(part)), Array(out.first(rank == root ? whole : 0)), root));
    case OperationKind::kScatter:
      return ranks.run(scatter(ConstArray(in.first(rank == root ? whole : 0)), Array(out.first(part)), root));
    case OperationKind::kAllToAll:
      return ranks.run(all_to_all(ConstArray(in.first(whole)), Array(out.first(whole))));
    default:
      return ranks.run({send(ConstArray(in), (rank + 1) % ranks.size()),
                        recv(Array(out), (rank + ranks.size() - 1) % ranks.size())});
  }
}

std::size_t shared_segments() {
  std::istringstream maps(read_file("/proc/self/maps"));
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:trireme") != std::string::npos ? 1 : 0;
  return count;
}

nlohmann::json describe_failure(Communicator& ranks, OperationKind kind, Talk& test) {
  std::vector<float> in(kCount, 1);
  std::vector<float> out(kCount);
  try {
    for (int turn = 0;; ++turn) {
      take_turn(ranks, kind, in, out);
      if (turn == 5) test.say("under way");
    }
  } catch (const PeerLost& problem) {
    return {{"type", "PeerLost"}, {"what", problem.what()}};
  } catch (const Timeout& problem) {
    return {{"type", "Timeout"}, {"what", problem.what()}};
  }
}

/// A rank: takes turns until it fails, tells how, then goes on in the view it is told.
void be_a_rank(Rank rank, OperationKind kind, net::Transport transport, std::chrono::milliseconds deadline,
               Talk& test) {
  Endpoint endpoint({.secret = kSecret});
  test.say(endpoint.address());
  const auto members = test.hear().get<std::vector<net::Address>>();
  Communicator ranks(endpoint, {.rank = rank, .members = members, .transport = transport, .deadline = deadline});
  test.say(describe_failure(ranks, kind, test));

  const auto next = test.hear();
  ranks.reconfigure(next["rank"], 2, next["members"].get<std::vector<net::Address>>());
  std::vector<float> data(kCount, static_cast<float>(rank));
  ranks.run(all_reduce(std::span(data)));
  test.say({{"sum", data.back()}, {"segments", shared_segments()}});
  test.hear();  // until all have said so
}

/// Some ranks, one of which is to fail.
struct Group {
  Group(OperationKind what, Rank who, net::Transport over, std::chrono::milliseconds deadline)
      : kind(what), victim(who), transport(over) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      processes.emplace_back([=](Talk& test) { be_a_rank(rank, what, over, deadline, test); });
    }
    for (Process& process : processes) addresses.push_back(process.talk().hear().get<net::Address>());
  }

  void begin() {
    for (Process& process : processes) process.talk().say(addresses);
  }
  void await_start() {
    for (Process& process : processes) EXPECT_EQ(process.talk().hear(), "under way") << name_of(kind);
  }

  Process& process(Rank rank) { return processes[rank]; }

  std::vector<Rank> survivors() const {
    std::vector<Rank> result;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (rank != victim) result.push_back(rank);
    }
    return result;
  }

  /// The survivors go on by themselves; then all is over.
  void expect_new_view() {
    std::vector<net::Address> members;
    for (const Rank rank : survivors()) members.push_back(addresses[rank]);
    for (std::size_t i = 0; i < members.size(); ++i) {
      process(survivors()[i]).talk().say({{"rank", i}, {"members", members}});
    }
    for (const Rank rank : survivors()) {
      const auto result = process(rank).talk().hear();
      EXPECT_EQ(result["sum"], kRanks * (kRanks - 1) / 2 - victim) << name_of(kind);
      // Of the view before, nothing is mapped any more.
      EXPECT_EQ(result["segments"], transport == net::Transport::kShm ? members.size() : 0) << name_of(kind);
    }
    for (const Rank rank : survivors()) process(rank).talk().say("done");
    for (const Rank rank : survivors()) EXPECT_EQ(process(rank).wait(), 0) << name_of(kind);
  }

  OperationKind kind;
  Rank victim;
  net::Transport transport;
  std::vector<Process> processes;
  std::vector<net::Address> addresses;
  Deadline noticed = Deadline::in(0s);  ///< until then the survivors say that one has failed
};

/// Calls `test` with groups that are in the middle of their collectives, so many at a time, until all kinds were there.
void for_all_kinds(net::Transport transport, std::size_t at_a_time, std::chrono::milliseconds deadline,
                   const std::function<void(std::vector<Group>& groups)>& test) {
  for (std::size_t first = 0; first < kKinds.size(); first += at_a_time) {
    std::vector<Group> groups;
    for (std::size_t i = first; i < std::min(first + at_a_time, kKinds.size()); ++i) {
      groups.emplace_back(kKinds[i], static_cast<Rank>(i % kRanks), transport, deadline);
    }
    for (Group& group : groups) group.begin();
    for (Group& group : groups) group.await_start();
    test(groups);
  }
}

bool names(const nlohmann::json& failure, Rank rank) {
  return failure["what"].get<std::string>().find(fmt::format("rank {}", rank)) != std::string::npos;
}

struct FaultTest : ::testing::TestWithParam<TransportCase> {};

INSTANTIATE_TEST_SUITE_P(Over, FaultTest, ::testing::Values(kShm, kTcp, kTls),
                         [](const auto& test) { return test.param.name; });

TEST_P(FaultTest, KilledRankThrowsPeerLostOnAllWithinASecond) {
  int in_time = 0;
  for_all_kinds(GetParam().transport, 1, kPatience, [&](std::vector<Group>& groups) {
    for (Group& group : groups) {
      group.process(group.victim).signal(SIGKILL);
      group.noticed = Deadline::in(kDeathNoticed);
    }
    for (Group& group : groups) {
      for (const Rank rank : group.survivors()) {
        const auto failure = group.process(rank).talk().hear();
        if (!group.noticed.passed()) ++in_time;
        SCOPED_TRACE(fmt::format("{}: {}", name_of(group.kind), failure.dump()));
        EXPECT_EQ(failure["type"], "PeerLost");
        EXPECT_TRUE(names(failure, group.victim));
      }
      EXPECT_EQ(group.process(group.victim).wait(), 128 + SIGKILL);
    }
    for (Group& group : groups) group.expect_new_view();
  });
  EXPECT_GT(in_time, 0);
}

struct StopTest : ::testing::TestWithParam<TransportCase> {};

INSTANTIATE_TEST_SUITE_P(Over, StopTest, ::testing::Values(kShm, kTcp),
                         [](const auto& test) { return test.param.name; });

TEST_P(StopTest, StoppedRankIsATimeoutThatNamesIt) {
  int in_time = 0;
  // Several groups wait at the same time.
  for_all_kinds(GetParam().transport, 5, kHangDeadline, [&](std::vector<Group>& groups) {
    for (Group& group : groups) {
      group.process(group.victim).stop();
      group.noticed = Deadline::in(kHangNoticed);
    }
    for (Group& group : groups) {
      for (const Rank rank : group.survivors()) {
        const auto failure = group.process(rank).talk().hear();
        if (!group.noticed.passed()) ++in_time;
        SCOPED_TRACE(fmt::format("{}: {}", name_of(group.kind), failure.dump()));
        EXPECT_EQ(failure["type"], "Timeout");
        EXPECT_TRUE(names(failure, group.victim));
      }
    }
    for (Group& group : groups) group.expect_new_view();
    // Who wakes up later learns that the others went on.
    for (Group& group : groups) {
      group.process(group.victim).signal(SIGCONT);
      const auto failure = group.process(group.victim).talk().hear();
      EXPECT_TRUE(failure["type"] == "PeerLost" || failure["type"] == "Timeout") << failure;
    }
  });
  EXPECT_GT(in_time, 0);
}

// A rank that gives up says why: whoever has more patience learns who is to blame, not that its neighbour left.
TEST(Fault, TimeoutOfOneRankNamesTheCauseToAll) {
  std::vector<Process> processes;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    processes.emplace_back([rank](Talk& test) {
      Endpoint endpoint({.secret = kSecret});
      test.say(endpoint.address());
      const auto members = test.hear().get<std::vector<net::Address>>();
      const auto patience = rank == 0 ? 3000ms : std::chrono::milliseconds(kPatience);
      auto ranks = std::make_unique<Communicator>(
          endpoint, CommunicatorOptions{.rank = rank, .members = members, .deadline = patience});
      const auto failure = describe_failure(*ranks, OperationKind::kAllReduce, test);
      ranks.reset();
      test.say(failure);
      test.hear();
    });
  }
  std::vector<net::Address> addresses;
  for (Process& process : processes) addresses.push_back(process.talk().hear().get<net::Address>());
  for (Process& process : processes) process.talk().say(addresses);
  for (Process& process : processes) EXPECT_EQ(process.talk().hear(), "under way");
  processes[2].stop();
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    const auto failure = processes[rank].talk().hear();
    EXPECT_EQ(failure["type"], "Timeout") << failure;
    EXPECT_TRUE(names(failure, 2)) << failure;
  }
}

TEST(Fault, NothingIsLeftInTheFileSystem) {
  const auto ours = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string name = entry.path().filename();
      if (name.find("trireme") != std::string::npos) names.push_back(name);
    }
    return names;
  };
  EXPECT_EQ(ours(), std::vector<std::string>());
  Group group(OperationKind::kAllReduce, 0, net::Transport::kShm, kPatience);
  group.begin();
  group.await_start();
  EXPECT_EQ(ours(), std::vector<std::string>());
  for (Process& process : group.processes) process.signal(SIGKILL);
  for (Process& process : group.processes) EXPECT_EQ(process.wait(), 128 + SIGKILL);
  EXPECT_EQ(ours(), std::vector<std::string>());
}

}  // namespace
}  // namespace trireme::collective
