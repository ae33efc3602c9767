#include "net/control_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trireme::net {
namespace {

constexpr std::uint32_t kControlMagic = 0x43495254;  // "TRIC"
constexpr std::size_t kMaxDescriptors = 2;

struct Wire {
  std::uint32_t magic;
  std::uint32_t type;
  std::uint64_t id;
  std::uint64_t bytes;
};

}  // namespace

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

void send_control(int socket, ControlMessage::Type type, std::uint64_t id, std::uint64_t bytes,
                  const std::vector<int>& descriptors) {
  TRIREME_CHECK(!descriptors.empty() && descriptors.size() <= kMaxDescriptors);
  Wire wire{kControlMagic, static_cast<std::uint32_t>(type), id, bytes};
  iovec part{&wire, sizeof(wire)};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * kMaxDescriptors)]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(sizeof(wire))) {
    fail<PeerLost>("cannot pass shared memory to the peer: {}", std::strerror(errno));
  }
}

std::optional<ControlMessage> receive_control(int socket) {
  Wire wire{};
  iovec part{&wire, sizeof(wire)};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * kMaxDescriptors)]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof(ancillary);
  ssize_t received;
  do {
    received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (received <= 0) fail<PeerLost>("the peer closed the connection");

  ControlMessage result;
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(item) + i * sizeof(int), sizeof(int));
      result.descriptors.emplace_back(descriptor);
    }
  }
  if (received != static_cast<ssize_t>(sizeof(wire)) || wire.magic != kControlMagic || result.descriptors.empty()) {
    fail<Corrupt>("the peer sent something else than shared memory over its Unix socket");
  }
  result.type = static_cast<ControlMessage::Type>(wire.type);
  result.id = wire.id;
  result.bytes = wire.bytes;
  return result;
}

}  // namespace trireme::net
