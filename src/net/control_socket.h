#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/file.h"

namespace trireme::net {

/// What two processes of one host say to each other over their Unix socket: file descriptors, and, by its end, death.
struct ControlMessage {
  enum class Type : std::uint32_t { kRings = 1, kDoorbell = 2, kSegment = 3 };

  Type type = Type::kSegment;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  std::vector<FileDescriptor> descriptors;  ///< on receipt; ours, close-on-exec
};

/// Returns whether the process at the other end of a connected Unix socket has this process's user, or is root: what
/// the kernel noted when it connected or began to listen.
bool same_user(int socket);

/// Sends without blocking for long (the messages are tiny and few). Throws PeerLost.
void send_control(int socket, ControlMessage::Type type, std::uint64_t id, std::uint64_t bytes,
                  const std::vector<int>& descriptors);

/// The next message if one is waiting. Throws PeerLost at the end of the stream, Corrupt on garbage.
std::optional<ControlMessage> receive_control(int socket);

}  // namespace trireme::net
