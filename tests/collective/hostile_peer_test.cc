// A rank that writes what it likes: into the memory it shares with another, and onto the wire.
#include <sys/socket.h>

#include "base/error.h"
#include "collective/call_signature.h"
#include "collective/native/local_group.h"
#include "net/control_socket.h"
#include "tests/collective/testing.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::collective {
namespace {

using net::Segment;

constexpr std::size_t kRing = 256u << 10;                // bytes; two positions, each in a cache line, precede them
constexpr std::size_t kRingStride = kRing + (4u << 10);  // from ring to ring

/// Two ranks of one host: rank 0 is ours, rank 1 is the test. What rank 0 has written to its ring shows where it is.
struct HostileNeighbour : ::testing::Test {
  HostileNeighbour() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    test_end = FileDescriptor(ends[1]);
    const std::byte ready{1};  // the first word of a side that has connected
    EXPECT_EQ(::send(test_end.get(), &ready, 1, 0), 1);
    net::AuthenticatedStream stream{.socket = net::Local::socket(context, net::Local(), ends[0]), .peer = "rank 1"};
    std::vector<std::unique_ptr<net::RawStream>> sockets(2);
    sockets[1] =
        std::make_unique<net::RawStream>(std::move(stream), net::RawStream::Side::kAccepted, Deadline::in(kPatience));
    const std::jthread answering([this] { share_memory(); });
    group = std::make_unique<LocalGroup>(0, std::move(sockets), Deadline::in(kPatience));
  }

  void share_memory() {
    std::optional<net::ControlMessage> message;
    EXPECT_TRUE(eventually([&] { return (message = net::receive_control(test_end.get())).has_value(); }));
    theirs = Segment::map(std::move(message->descriptors.at(0)), message->bytes, Segment::Access::kReadWrite);
    own = Segment::create("hostile", message->bytes);
    net::send_control(test_end.get(), net::ControlMessage::Type::kSegment, message->id, own->bytes().size(),
                      {own->descriptor()});
  }

  /// Sends what is found again in the shared memory; returns where.
  std::size_t find_ring(Pipe& pipe) const {
    const std::string text = "what nobody else would write into this memory";
    EXPECT_EQ(pipe.try_send(as_bytes(text)), text.size());
    return as_text(theirs->bytes()).find(text);
  }

  net::asio::io_context context;
  FileDescriptor test_end;
  std::shared_ptr<Segment> theirs;
  std::shared_ptr<Segment> own;
  std::unique_ptr<LocalGroup> group;
};

TEST_F(HostileNeighbour, ImpossiblePositionsOfARingAreRefused) {
  const auto pipe = group->make_pipe(1, LocalGroup::Use::kCollectives);
  const std::size_t ring = find_ring(*pipe);
  ASSERT_NE(ring, std::string_view::npos);
  const auto written = load_le<std::uint64_t>(theirs->bytes().subspan(ring - 128));
  const MutableBytes read_word = theirs->bytes().subspan(ring - 64);
  const std::vector<std::byte> data(2 * kRing, std::byte{7});
  // "I have read what you have not written yet": there would be more room than the ring has.
  for (const std::uint64_t read :
       {written + 1, written + kRing, written + (std::uint64_t{1} << 63), written - kRing - 1}) {
    store_le(read_word, read);
    EXPECT_FAILS(pipe->try_send(data), Corrupt, "index 1", "position");
  }
  EXPECT_EQ(theirs->bytes()[ring + kRing], std::byte{0}) << "written beyond the ring";
  // Its own position is not taken from there either.
  store_le(theirs->bytes().subspan(ring - 128), written + 12345);
  store_le(read_word, written);
  EXPECT_EQ(pipe->try_send(data), kRing);
  EXPECT_EQ(load_le<std::uint64_t>(theirs->bytes().subspan(ring - 128)), written + kRing);
}

TEST_F(HostileNeighbour, MoreBytesThanARingHoldsAreRefused) {
  const auto pipe = group->make_pipe(1, LocalGroup::Use::kCollectives);
  const std::size_t ring = find_ring(*pipe) - 2 * kRingStride;  // of rank 1 to rank 0, in the other segment
  const MutableBytes written_word = own->bytes().subspan(ring - 128);
  std::vector<std::byte> data(2 * kRing);
  for (const std::uint64_t written : {std::uint64_t{kRing + 1}, ~std::uint64_t{0}}) {
    store_le(written_word, written);
    EXPECT_FAILS(pipe->try_recv(data), Corrupt, "index 1", "position");
  }
  store_le(written_word, std::uint64_t{5});
  EXPECT_EQ(pipe->try_recv(data), 5u);
}

TEST_F(HostileNeighbour, MemoryThatWasNeverSharedIsRefused) {
  EXPECT_FAILS(group->at(1, 77, 0, 8), Corrupt, "allocation 77");
  const std::jthread answering([this] { share_memory(); });
  const auto memory = group->allocate(4096, Deadline::in(kPatience), [] {});
  EXPECT_NO_THROW(group->at(1, 1, 4088, 8));
  EXPECT_FAILS(group->at(1, 1, 4089, 8), Corrupt, "4096 bytes");
  EXPECT_FAILS(group->at(1, 1, ~std::uint64_t{0} - 3, 8), Corrupt, "4096 bytes");
}

/// Rank 1 of two, on another host: answers each call of rank 0 with the same call, changed.
class HostileRank {
 public:
  HostileRank(Ranks& ranks, std::function<void(CallSignature& call, std::vector<std::byte>& trailer)> change)
      : change_(std::move(change)) {
    thread_ = std::jthread([this, &ranks] {
      const auto open = [&](Purpose purpose) {
        const LinkName name{.view = 1, .group = "all", .from = 1, .to = 0, .purpose = purpose};
        return ranks.endpoints[1]->connect(ranks.addresses[0], name, net::Transport::kTcp, Deadline::in(kPatience));
      };
      const auto stream = [&](Purpose purpose) {
        return net::RawStream(open(purpose), net::RawStream::Side::kConnected, Deadline::in(kPatience));
      };
      const net::AuthenticatedStream heartbeat = open(Purpose::kHeartbeat);
      net::RawStream data = stream(Purpose::kData);
      const net::RawStream messages = stream(Purpose::kPeer);
      CallSignature call;
      data.recv_all(std::as_writable_bytes(std::span(&call, 1)), Deadline::in(kPatience));
      std::vector<std::byte> trailer(call.trailer);
      data.recv_all(trailer, Deadline::in(kPatience));
      change_(call, trailer);
      const Bytes head = std::as_bytes(std::span(&call, 1));
      trailer.insert(trailer.begin(), head.begin(), head.end());  // at once: rank 0 may leave when it has seen the call
      data.send_all(trailer, Deadline::in(kPatience));
      finished_.wait(false);
    });
  }
  ~HostileRank() {
    finished_ = true;
    finished_.notify_all();
  }
  HostileRank(const HostileRank&) = delete;
  HostileRank& operator=(const HostileRank&) = delete;

 private:
  std::function<void(CallSignature&, std::vector<std::byte>&)> change_;
  std::atomic<bool> finished_{false};
  std::jthread thread_;
};

/// What rank 0 says of `operation` when rank 1 sends `bytes` along with its call.
std::string answer_to_trailer(std::size_t bytes, const std::function<Operation(Array in, Array out)>& operation) {
  Ranks ranks(2);
  ranks.move_away(1);
  const HostileRank hostile(ranks, [&](CallSignature& call, std::vector<std::byte>& trailer) {
    trailer.resize(bytes, std::byte{1});
    call.trailer = static_cast<std::uint32_t>(bytes);
  });
  std::vector<float> in(10, 1.0f);
  std::vector<float> out(20);
  try {
    Communicator communicator(*ranks.endpoints[0], ranks.options(0, {.transport = net::Transport::kTcp}));
    communicator.run(operation(Array(std::span(in)), Array(std::span(out))), Deadline::in(kPatience));
  } catch (const Corrupt& problem) {
    return problem.what();
  }
  return "done";
}

TEST(HostileRank, DataThatComesWithACallMustHaveItsSize) {
  const auto sum = [](Array in, Array) { return all_reduce(in); };
  EXPECT_EQ(answer_to_trailer(40, sum), "done");
  for (const std::size_t bytes : {0u, 36u, 44u, 4000u}) {
    EXPECT_THAT(answer_to_trailer(bytes, sum), ::testing::HasSubstr("where 40 are due")) << bytes;
  }
  const auto gather_all = [](Array in, Array out) { return all_gather(ConstArray(in), out); };
  EXPECT_THAT(answer_to_trailer(4000, gather_all), ::testing::HasSubstr("where 40 are due"));
  const auto take = [](Array in, Array) { return broadcast(in, 1); };
  EXPECT_THAT(answer_to_trailer(4, take), ::testing::HasSubstr("where 40 are due"));
  const auto give = [](Array in, Array) { return broadcast(in, 0); };
  EXPECT_THAT(answer_to_trailer(4, give), ::testing::HasSubstr("where 0 are due"));
  const auto to_all = [](Array in, Array out) { return all_to_all(ConstArray(in), Array(out.dtype, out.data, 10)); };
  EXPECT_THAT(answer_to_trailer(8, to_all), ::testing::HasSubstr("where 32 are due"));
}

TEST(HostileRank, ACallOfNoKnownKindIsAnErrorNotTheEnd) {
  Ranks ranks(2);
  ranks.move_away(1);
  const HostileRank hostile(ranks, [](CallSignature& call, std::vector<std::byte>&) {
    call.dtype = static_cast<DType>(200);
    call.kind = static_cast<OperationKind>(99);
  });
  Communicator communicator(*ranks.endpoints[0], ranks.options(0, {.transport = net::Transport::kTcp}));
  std::vector<float> data(10);
  EXPECT_FAILS(communicator.run(all_reduce(std::span(data)), Deadline::in(kPatience)), InvalidArgument, "rank 1",
               "an unknown operation");
}

}  // namespace
}  // namespace trireme::collective
