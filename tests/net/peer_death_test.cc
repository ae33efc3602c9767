// The other process dies or stops. It is forked before this one has threads.
#include <thread>

#include "tests/net/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

struct PeerDeathTest : ::testing::TestWithParam<Transport> {
  ChildService child;
  EventLoop loop{"client"};
  std::shared_ptr<Connection> connection = Connection::open(loop, child.address(), connect_options(GetParam()));

  ~PeerDeathTest() override { connection->close(); }
};

INSTANTIATE_TEST_SUITE_P(Over, PeerDeathTest, ::testing::Values(Transport::kShm, Transport::kTcp, Transport::kTls),
                         [](const auto& test) { return to_string(test.param); });

TEST_P(PeerDeathTest, KilledPeerEndsAWaitAtOnce) {
  EXPECT_EQ(ask(*connection, "hello"), "hello");
  const auto pending = connection->send({.kind = kSilence, .body = encode_message(Text{})});
  child.signal(SIGKILL);
  EXPECT_FAILS(connection->wait(pending, Deadline::in(kPatience), "a question"), PeerLost, "the echo", "a question");
  EXPECT_FAILS(ask(*connection, "more"), PeerLost, "the echo");
}

TEST_P(PeerDeathTest, KilledUnderLoad) {
  std::thread killer([&] {
    ask(*Connection::open(loop, child.address(), connect_options(GetParam())), "hello");
    child.signal(SIGKILL);
  });
  const std::string text(10'000, 'x');
  EXPECT_THROW(
      for (;;) {
        std::vector<std::shared_ptr<PendingReply>> sent;
        for (int i = 0; i < 100; ++i)
          sent.push_back(connection->send({.kind = kEcho, .body = encode_message(Text{text})}));
        for (const auto& pending : sent) connection->wait(pending, Deadline::in(10s), "an echo");
      },
      PeerLost);
  killer.join();
}

TEST_P(PeerDeathTest, StoppedPeerIsATimeoutAtTheDeadline) {
  EXPECT_EQ(ask(*connection, "hello"), "hello");
  child.stop();
  expect_ends_within(kPatience, [&] {
    EXPECT_FAILS(ask(*connection, "are you there", 300ms), Timeout, "the echo", "an echo", "stopped or overloaded");
  });
  EXPECT_FAILS(Connection::open(loop, child.address(), connect_options(GetParam(), 300ms)), Timeout, "the echo");
}

}  // namespace
}  // namespace trireme::net
