// What a peer passes as its doorbell is written to: it must be one.
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "net/control_socket.h"
#include "net/shm/shm_channel.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

TEST(Doorbell, APipeOrAFileIsRefused) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor peer(ends[1]);
  const auto rings = Segment::create("rings", 64u << 10);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const FileDescriptor reader(pipe_ends[0]);
  const FileDescriptor writer(pipe_ends[1]);
  send_control(peer.get(), ControlMessage::Type::kRings, 0, rings->bytes().size(), {rings->descriptor(), writer.get()});
  const ShmChannelOptions options{.peer = "a peer", .limits = {}, .own_doorbell = std::make_shared<Doorbell>()};
  EXPECT_FAILS(ShmChannel::accept(FileDescriptor(ends[0]), {}, options, Deadline::in(kPatience)), Corrupt, "doorbell");
  EXPECT_FAILS(Doorbell(FileDescriptor(::dup(rings->descriptor()))), Corrupt, "doorbell");
  EXPECT_NO_THROW(Doorbell(FileDescriptor(::dup(Doorbell().descriptor()))));
}

}  // namespace
}  // namespace trireme::net
