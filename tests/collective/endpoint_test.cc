// Who gets in, who does not, and who is waited for in vain.
#include <sys/socket.h>

#include <future>

#include "base/error.h"
#include "base/random.h"
#include "collective/native/host_groups.h"
#include "net/connect.h"
#include "net/raw_stream.h"
#include "tests/collective/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

using net::AuthenticatedStream;
using net::Transport;

constexpr LinkName kLink{.view = 1, .group = {}, .from = 1, .to = 0, .purpose = Purpose::kData};

LinkName link(View view, const std::string& group = "all") {
  LinkName name = kLink;
  name.view = view;
  name.group = group;
  return name;
}

int descriptor_of(AuthenticatedStream& stream) {
  if (auto* local = std::get_if<net::Local::socket>(&stream.socket)) return local->native_handle();
  return std::get<net::tcp::socket>(stream.socket).native_handle();
}

/// Reads until the other side closes; false if it does not for 10 s.
bool is_closed(AuthenticatedStream& stream) {
  std::visit(
      [](auto& socket) {
        if constexpr (requires { socket.native_non_blocking(false); }) socket.native_non_blocking(false);
      },
      stream.socket);
  const timeval patience{10, 0};
  ::setsockopt(descriptor_of(stream), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char byte;
  ssize_t got;
  while ((got = ::recv(descriptor_of(stream), &byte, 1, 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

/// Two ranks on these endpoints can still work together.
void expect_work(Ranks& ranks, View view, Transport transport) {
  const auto problems = ranks.run([&](Rank rank) {
    Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, {.view = view, .transport = transport}));
    std::vector<float> data(1000, 1);
    communicator.run(all_reduce(std::span(data)));
    EXPECT_EQ(data.back(), 2.0f);
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

struct EndpointTest : ::testing::TestWithParam<TransportCase> {
  Transport transport() const { return GetParam().transport; }
};

INSTANTIATE_TEST_SUITE_P(Over, EndpointTest, ::testing::Values(kShm, kTcp, kTls),
                         [](const auto& test) { return test.param.name; });

TEST_P(EndpointTest, AcceptMatchesConnectionsByName) {
  Ranks ranks(2);
  // Early: before anybody asks for it.
  ranks.endpoints[1]->connect(ranks.addresses[0], link(1, "a"), transport(), Deadline::in(10s));
  const AuthenticatedStream first =
      ranks.endpoints[1]->connect(ranks.addresses[0], link(1, "b"), transport(), Deadline::in(10s));
  EXPECT_NO_THROW(ranks.endpoints[0]->accept(link(1, "b"), Deadline::in(10s)));
  EXPECT_FAILS(ranks.endpoints[0]->accept(link(1, "b"), Deadline::in(50ms)), Timeout, "rank 1 did not connect", "'b'");
  EXPECT_NO_THROW(ranks.endpoints[0]->accept(link(1, "a"), Deadline::in(10s)));
}

TEST(Silence, EndsAWaitBeforeItsDeadlineAndIsNoted) {
  Ranks ranks(2);
  ranks.move_away(1);
  std::promise<void> over;
  const std::jthread silent([&, finished = over.get_future().share()] {  // rank 1 connects, and never says a word
    const auto open = [&](Purpose purpose) {
      LinkName name = link(1);
      name.purpose = purpose;
      return ranks.endpoints[1]->connect(ranks.addresses[0], name, Transport::kTcp, Deadline::in(kPatience));
    };
    const auto stream = [&](Purpose purpose) {
      return net::RawStream(open(purpose), net::RawStream::Side::kConnected, Deadline::in(kPatience));
    };
    const AuthenticatedStream heartbeat = open(Purpose::kHeartbeat);
    const net::RawStream data = stream(Purpose::kData);
    const net::RawStream messages = stream(Purpose::kPeer);
    finished.wait();
  });
  {
    Communicator communicator(*ranks.endpoints[0],
                              ranks.options(0, {.transport = Transport::kTcp, .silent_after = 500ms}));
    std::vector<float> values(1000);
    EXPECT_FAILS(communicator.run(all_reduce(std::span(values)), Deadline::in(1h)), Timeout, "rank 1",
                 "was not heard of for");
    const auto unreachable = ranks.endpoints[0]->take_unreachable();
    ASSERT_EQ(unreachable.size(), 1u);
    EXPECT_EQ(unreachable[0].text(), ranks.addresses[1].text());
    EXPECT_TRUE(ranks.endpoints[0]->take_unreachable().empty());
  }
  over.set_value();
}

TEST_P(EndpointTest, EndOfTheViewEndsAWaitForARankThatDoesNotAnswer) {
  if (transport() == Transport::kShm) return;  // a peer on this host answers, or is gone
  Ranks ranks(1);
  net::asio::io_context context;
  net::tcp::acceptor mute(context, {net::asio::ip::address_v4::loopback(), 0});
  const net::Address peer{.host = "127.0.0.1", .port = mute.local_endpoint().port()};
  auto waiting = std::async(std::launch::async, [&] {
    EXPECT_FAILS(ranks.endpoints[0]->connect(peer, link(1), transport(), Deadline::in(1h)), StaleView, "view 1 ended");
  });
  const net::tcp::socket connected = mute.accept();  // and never a word
  ranks.endpoints[0]->enter_view(2);
  waiting.get();
}

TEST_P(EndpointTest, EarlierViewsAreRefused) {
  Ranks ranks(2);
  const auto old = ranks.endpoints[1]->connect(ranks.addresses[0], link(1), transport(), Deadline::in(10s));
  ranks.endpoints[0]->enter_view(3);
  EXPECT_FAILS(ranks.endpoints[1]->connect(ranks.addresses[0], link(2), transport(), Deadline::in(10s)), StaleView,
               "rank 0", "later view than 2", "master");
  EXPECT_FAILS(ranks.endpoints[0]->accept(link(1), Deadline::in(50ms)), StaleView, "view 1 ended");
  EXPECT_NO_THROW(ranks.endpoints[1]->connect(ranks.addresses[0], link(4), transport(), Deadline::in(10s)));
  ranks.endpoints[0]->enter_view(2);  // never back
  EXPECT_THROW(ranks.endpoints[1]->connect(ranks.addresses[0], link(2), transport(), Deadline::in(10s)), StaleView);
  expect_work(ranks, 3, transport());
}

TEST_P(EndpointTest, AnotherSecretIsRefused) {
  Ranks ranks(2);
  Endpoint stranger({.secret = "a guess, of thirty-two bytes too"});
  EXPECT_FAILS(stranger.connect(ranks.addresses[0], link(1), transport(), Deadline::in(10s)), Unauthenticated, "rank 0",
               "secret");
  EXPECT_FAILS(ranks.endpoints[1]->connect(stranger.address(), link(1), transport(), Deadline::in(10s)),
               Unauthenticated, "rank 0", "secret");
  expect_work(ranks, 1, transport());
}

TEST_P(EndpointTest, TimeoutNamesTheRankThatDidNotConnect) {
  Ranks ranks(3);
  // Ranks 0 and 2 are here; 1 has an endpoint, but does not take part.
  std::vector<std::string> problems;
  expect_ends_within(kPatience, [&] {
    problems = ranks.run([&](Rank rank) {
      if (rank == 1) return;
      Communicator communicator(*ranks.endpoints[rank],
                                ranks.options(rank, {.transport = transport(), .connect_within = 1s, .deadline = 1s}));
      communicator.run(barrier());  // where connecting succeeds without it, nothing else does
    });
  });
  EXPECT_THAT(problems[0], ::testing::HasSubstr("rank 1 did not connect"));
  EXPECT_THAT(problems[2], ::testing::AnyOf(::testing::HasSubstr("rank 0"), ::testing::HasSubstr("rank 1")));
}

TEST_P(EndpointTest, ARankWithoutAnEndpointIsNamed) {
  Ranks ranks(2);
  ranks.endpoints[0].reset();
  EXPECT_FAILS(Communicator(*ranks.endpoints[1], ranks.options(1, {.transport = transport(), .connect_within = 2s})),
               PeerLost, "rank 0", "cannot reach");
}

TEST(Endpoint, ALaterConnectionOfTheSameNameReplacesTheEarlier) {
  Ranks ranks(2);
  for (const Transport transport : {Transport::kShm, Transport::kTcp}) {
    const auto connect = [&] {
      return ranks.endpoints[1]->connect(ranks.addresses[0], link(1), transport, Deadline::in(10s));
    };
    AuthenticatedStream first = connect();
    AuthenticatedStream second = connect();
    EXPECT_TRUE(is_closed(first));
    EXPECT_NO_THROW(ranks.endpoints[0]->accept(link(1), Deadline::in(10s)));
    EXPECT_THROW(ranks.endpoints[0]->accept(link(1), Deadline::in(50ms)), Timeout);
  }
}

TEST(Endpoint, GarbageAfterTheHandshakeIsClosed) {
  Ranks ranks(2);
  RandomStream random(9);
  net::EventLoop loop("stranger");
  for (const Transport transport : {Transport::kShm, Transport::kTcp}) {
    const auto expect_refused = [&](const std::string& words) {
      AuthenticatedStream stream = net::connect(loop, ranks.addresses[0], {.secret = kSecret, .transport = transport});
      ::send(descriptor_of(stream), words.data(), words.size(), MSG_NOSIGNAL);
      EXPECT_TRUE(is_closed(stream));
    };
    const auto sized = [](std::uint32_t size, const std::string& body) {
      std::string words(sizeof(size), '\0');
      store_le(std::as_writable_bytes(std::span(words)), size);
      return words + body;
    };
    expect_refused(sized(0xffffffff, "x"));
    expect_refused(sized(4097, "x"));
    expect_refused(sized(0, ""));
    expect_refused(sized(5, "\xc1\xc1\xc1\xc1\xc1"));
    for (int i = 0; i < 10; ++i) {
      std::string body(1 + random.below(200), '\0');
      for (char& byte : body) byte = static_cast<char>(random.next());
      expect_refused(sized(static_cast<std::uint32_t>(body.size()), body));
    }
    expect_work(ranks, 1, transport);
  }
}

TEST(Endpoint, ReconfigureRequiresALaterView) {
  Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, {.view = 5}));
    EXPECT_EQ(communicator.view(), 5u);
    EXPECT_FAILS(communicator.reconfigure(rank, 5, ranks.addresses), InvalidArgument, "view 5");
    const auto memory = communicator.allocate(4000);
    communicator.run(barrier());
    communicator.reconfigure(1 - rank, 6, {ranks.addresses[1], ranks.addresses[0]});
    EXPECT_EQ(communicator.view(), 6u);
    EXPECT_EQ(communicator.rank(), 1 - rank);
    // Memory of an earlier view is private now, and still there.
    auto* values = reinterpret_cast<float*>(memory.get());
    values[999] = 1;
    communicator.run(all_reduce(std::span(values, 1000)));
    EXPECT_EQ(values[999], 2.0f);
    communicator.run(barrier());
  });
  EXPECT_EQ(problems, std::vector<std::string>(2));
}

TEST(Endpoint, AReconfigurationThatFailsCanBeRepeated) {
  Ranks ranks(3);
  const auto problems = ranks.run([&](Rank rank) {
    if (rank == 2) return;
    Communicator communicator(*ranks.endpoints[rank], ranks.options(rank, {.connect_within = 3s, .deadline = 3s}));
  });
  // Without rank 2 nobody came together; the same with a communicator that already exists.
  EXPECT_THAT(problems[0], ::testing::HasSubstr("rank 2 did not connect"));
  const std::vector<net::Address> two = {ranks.addresses[0], ranks.addresses[1]};
  const auto again = ranks.run([&](Rank rank) {
    if (rank == 2) return;
    // Rank 1 goes to view 4 at once, and waits there until rank 0 has given up view 3.
    const std::chrono::milliseconds patience = rank == 0 ? 3s : 20s;
    CommunicatorOptions options{.rank = rank, .view = 2, .members = two, .connect_within = patience, .deadline = 20s};
    Communicator communicator(*ranks.endpoints[rank], options);
    communicator.run(barrier());
    if (rank == 0) {
      EXPECT_FAILS(communicator.reconfigure(0, 3, ranks.addresses), Timeout, "rank");
      EXPECT_FAILS(communicator.run(barrier()), PeerLost, "view 3");
      EXPECT_FAILS(communicator.start(barrier()), PeerLost, "view 3");
      EXPECT_FAILS(communicator.allocate(8), PeerLost, "view 3");
      EXPECT_EQ(communicator.size(), 3u);
    }
    communicator.reconfigure(rank, 4, two);
    communicator.run(barrier());
  });
  EXPECT_EQ(again, std::vector<std::string>(3));
}

// One boot id does not mean one memory: copies of a virtual machine, or containers.
TEST(Mesh, RanksThatOnlySeemToBeOnOneHostFallBackToTheNetwork) {
  Ranks ranks(3);
  ranks.seal_off_rank_0();
  const std::vector<std::string> over{"tls", "shm+tls", "shm+tls"};
  const auto problems = ranks.run([&](Rank rank) {
    Communicator communicator(*ranks.endpoints[rank], ranks.options(rank));
    EXPECT_EQ(communicator.transport(), over[rank]) << "rank " << rank;
    std::vector<float> values(1000, static_cast<float>(rank + 1));
    communicator.run(all_reduce(std::span(values)));
    EXPECT_EQ(values, std::vector<float>(1000, 6));
    communicator.run(barrier());
  });
  EXPECT_THAT(problems, ::testing::Each(""));
}

TEST(GroupHosts, AllRanksOfAHostShareMemoryWithEachOther) {
  EXPECT_EQ(group_hosts({{0}}), (std::vector<std::vector<Rank>>{{0}}));
  EXPECT_EQ(group_hosts({{0, 0, 1}, {0, 0, 0}, {1, 0, 0}}), (std::vector<std::vector<Rank>>{{0, 2}, {1}}));
  EXPECT_EQ(group_hosts({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}}), (std::vector<std::vector<Rank>>{{0, 1}, {2}}))
      << "rank 2 shares with one of the two only";
  EXPECT_EQ(group_hosts({{0, 1}, {0, 0}}), (std::vector<std::vector<Rank>>{{0}, {1}})) << "one side denies it";
}

}  // namespace
}  // namespace trireme::collective
