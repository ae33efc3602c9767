// Connections over channels in memory, whose faults are planned and counted: no sockets, no threads, no waiting.
#include "tests/support/memory_channel.h"

#include "net/connection.h"
#include "net/message_codec.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

using ::testing::ElementsAre;

/// Answers every request with its own body; with a payload of so many bytes if the kind is not 0.
class EchoPeer : public FrameReceiver {
 public:
  std::optional<std::vector<MutableBytes>> place(const FrameHeader& /*header*/) override { return std::nullopt; }
  void on_frame(InFrame frame) override {
    heard.push_back(decode_message<std::string>(frame.body_bytes()));
    answer(frame.header);
  }
  void on_close(const std::string& reason) override { closed.push_back(reason); }

  void answer(const FrameHeader& request) {
    FrameHeader header = request;
    header.flags = kReply;
    channel->send(
        {.header = header, .body = encode_message(heard.back()), .payload = {Bytes(payload).first(request.kind)}});
  }

  std::shared_ptr<Channel> channel;
  std::vector<std::string> heard;
  std::vector<std::string> closed;
  std::vector<std::byte> payload = std::vector<std::byte>(100, std::byte{7});
};

/// A connection and its peer, each with faults in what it sends.
struct Pair {
  explicit Pair(ChannelFaultPlan asking = {}, ChannelFaultPlan answering = {}) {
    peer->channel = answers =
        std::make_shared<FaultyChannel>(std::make_shared<MemoryChannel>(link, 1, peer), std::move(answering));
    connection = Connection::over([&](const std::shared_ptr<FrameReceiver>& receiver) {
      return requests =
                 std::make_shared<FaultyChannel>(std::make_shared<MemoryChannel>(link, 0, receiver), std::move(asking));
    });
  }
  ~Pair() { peer->channel.reset(); }

  std::shared_ptr<PendingReply> send(const std::string& text) {
    return connection->send({.body = encode_message(text)});
  }

  /// The answer, if it is there without waiting.
  std::string wait(const std::shared_ptr<PendingReply>& pending) {
    link->deliver();
    return decode_message<std::string>(connection->wait(pending, Deadline::in(0ms), "an echo").body_bytes());
  }

  std::shared_ptr<MemoryLink> link = std::make_shared<MemoryLink>();
  std::shared_ptr<EchoPeer> peer = std::make_shared<EchoPeer>();
  std::shared_ptr<FaultyChannel> requests;
  std::shared_ptr<FaultyChannel> answers;
  std::shared_ptr<Connection> connection;
};

TEST(MemoryChannel, DeliversFramesInTheOrderSent) {
  Pair pair;
  const auto first = pair.send("one");
  const auto second = pair.send("two");
  EXPECT_EQ(pair.wait(second), "two");
  EXPECT_EQ(pair.wait(first), "one");
  EXPECT_THAT(pair.peer->heard, ElementsAre("one", "two"));
}

TEST(MemoryChannel, CopiesPayloadsIntoTheSinksOfTheRequest) {
  Pair pair;
  std::vector<std::byte> sink(100);
  const auto pending = pair.connection->send({.kind = 100, .body = encode_message("x"), .sinks = {sink}});
  pair.wait(pending);
  EXPECT_EQ(sink, pair.peer->payload);
}

TEST(MemoryChannel, CloseReachesBothEndsOnceAndBehindEarlierFrames) {
  Pair pair;
  pair.send("before the end");
  pair.connection->close();
  pair.connection->close();
  pair.link->deliver();
  EXPECT_THAT(pair.peer->heard, ElementsAre("before the end"));
  EXPECT_THAT(pair.peer->closed, ElementsAre("the peer closed the connection"));
  EXPECT_TRUE(pair.connection->closed());
}

TEST(MemoryChannel, PumpMovesFramesForTheThreadThatWaits) {
  Pair pair;
  const auto pending = pair.send("hello");
  EXPECT_EQ(decode_message<std::string>(pair.connection->wait(pending, Deadline::in(60s), "an echo").body_bytes()),
            "hello");
}

TEST(FaultyChannel, SameSeedInjectsTheSameFaultsAndCountsThem) {
  const ChannelFaultPlan plan{.seed = 7, .delay = 0.1, .drop = 0.2, .reorder = 0.3};
  std::vector<std::vector<std::string>> heard;
  std::vector<ChannelFaultCounts> counts;
  for (int run = 0; run < 2; ++run) {
    Pair pair(plan);
    for (int i = 0; i < 200; ++i) pair.send(std::to_string(i));
    pair.requests->release();
    pair.link->deliver();
    heard.push_back(pair.peer->heard);
    counts.push_back(pair.requests->counts());
  }
  EXPECT_EQ(heard[0], heard[1]);
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_EQ(counts[0].sent, 200);
  EXPECT_EQ(heard[0].size(), counts[0].sent - counts[0].dropped);
  EXPECT_GT(counts[0].delayed, 0);
  EXPECT_GT(counts[0].dropped, 0);
  EXPECT_GT(counts[0].reordered, 0);
  EXPECT_FALSE(std::ranges::is_sorted(heard[0], {}, [](const std::string& text) { return std::stoi(text); }));
}

TEST(FaultyChannel, DelaysFramesByACountOfFramesAndKeepsTheirOrder) {
  Pair pair({.script = {ChannelFault::kDelay}, .delay_frames = 2});
  const auto heard_after = [&](const std::string& text) {
    pair.send(text);
    pair.link->deliver();
    return pair.peer->heard.size();
  };
  EXPECT_EQ(heard_after("a"), 0);
  EXPECT_EQ(heard_after("b"), 0);
  EXPECT_EQ(heard_after("c"), 3);
  EXPECT_THAT(pair.peer->heard, ElementsAre("a", "b", "c"));
}

TEST(ConnectionWithFaults, RequestTimesOutIfItIsDropped) {
  Pair pair({.script = {ChannelFault::kDrop}});
  const auto pending = pair.send("lost");
  EXPECT_FAILS(pair.wait(pending), Timeout, "the second end", "an echo");
  EXPECT_TRUE(pair.connection->closed());
  EXPECT_EQ(pair.requests->counts().dropped, 1);
}

TEST(ConnectionWithFaults, RequestTimesOutIfItsAnswerIsDroppedAndOthersFailWithIt) {
  Pair pair({}, {.script = {ChannelFault::kDrop, ChannelFault::kDrop}});
  const auto first = pair.send("one");
  const auto second = pair.send("two");
  EXPECT_FAILS(pair.wait(first), Timeout, "an echo");
  EXPECT_FAILS(pair.wait(second), PeerLost, "closed by this side");
  EXPECT_THAT(pair.peer->heard, ElementsAre("one", "two"));
}

TEST(ConnectionWithFaults, RequestsAreRefusedAfterACut) {
  Pair pair({.script = {ChannelFault::kNone, ChannelFault::kCut}});
  const auto before = pair.send("before");
  EXPECT_EQ(pair.wait(before), "before");
  const auto cut = pair.send("cut");
  EXPECT_FAILS(pair.wait(cut), PeerLost, "the connection was cut");
  EXPECT_FAILS(pair.send("after"), PeerLost, "is gone", "the connection was cut");
  EXPECT_THAT(pair.peer->heard, ElementsAre("before"));
  EXPECT_EQ(pair.requests->counts().cut, 1);
}

TEST(ConnectionWithFaults, PendingRequestsFailWithPeerLostIfThePeerIsCutOff) {
  Pair pair({}, {.script = {ChannelFault::kCut}});
  const auto first = pair.send("one");
  const auto second = pair.send("two");
  EXPECT_FAILS(pair.wait(first), PeerLost, "the peer closed");
  EXPECT_FAILS(pair.wait(second), PeerLost, "the peer closed");
}

TEST(ConnectionWithFaults, AnswersOutOfOrderReachTheirRequests) {
  Pair pair({}, {.script = {ChannelFault::kReorder}});
  const auto first = pair.send("one");
  const auto second = pair.send("two");
  EXPECT_EQ(pair.wait(first), "one");
  EXPECT_EQ(pair.wait(second), "two");
  EXPECT_EQ(pair.answers->counts().reordered, 1);
}

TEST(ConnectionWithFaults, LateAnswerAfterATimeoutIsIgnoredAndWritesNothing) {
  Pair pair({}, {.script = {ChannelFault::kDelay}});
  std::vector<std::byte> sink(100);
  const auto pending = pair.connection->send({.kind = 100, .body = encode_message("late"), .sinks = {sink}});
  EXPECT_FAILS(pair.wait(pending), Timeout, "an echo");
  EXPECT_EQ(pair.answers->counts().delayed, 1);
  pair.answers->release();
  pair.link->deliver();
  EXPECT_EQ(sink, std::vector<std::byte>(100));
}

TEST(ConnectionWithFaults, SecondAnswerToOneRequestIsIgnored) {
  Pair pair;
  const auto pending = pair.send("once");
  EXPECT_EQ(pair.wait(pending), "once");
  pair.peer->answer({.request = 1});
  pair.peer->answer({.request = 4711});
  pair.link->deliver();
  EXPECT_FALSE(pair.connection->closed());
  EXPECT_EQ(pair.wait(pair.send("again")), "again");
}

TEST(ConnectionWithFaults, AnswerOfAnotherSizeThanTheSinkEndsTheConnection) {
  Pair pair;
  std::vector<std::byte> sink(100);
  const auto pending = pair.connection->send({.kind = 50, .body = encode_message("short"), .sinks = {sink}});
  EXPECT_FAILS(pair.wait(pending), PeerLost, "50 bytes where 100 were asked for");
}

TEST(ConnectionWithFaults, EveryRequestEndsWithItsOwnAnswerOrAnErrorUnderAnySeed) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const ChannelFaultPlan plan{.seed = seed, .delay = 0.03, .drop = 0.01, .reorder = 0.1, .cut = 0.01};
    Pair pair(plan, plan);
    std::uint64_t answered = 0;
    try {
      for (int round = 0; round < 10; ++round) {
        std::vector<std::shared_ptr<PendingReply>> sent;
        for (int i = 0; i < 3; ++i) sent.push_back(pair.send(std::to_string(3 * round + i)));
        for (int i = 0; i < 3; ++i, ++answered)
          ASSERT_EQ(pair.wait(sent[static_cast<std::size_t>(i)]), std::to_string(3 * round + i));
      }
    } catch (const Timeout&) {
    } catch (const PeerLost&) {
    }
    const std::uint64_t injected = pair.requests->counts().injected() + pair.answers->counts().injected();
    EXPECT_TRUE(injected > 0 || answered == 30) << "seed " << seed;
    EXPECT_EQ(pair.connection->closed(), answered < 30) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trireme::net
