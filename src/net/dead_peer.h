#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace trireme::net {

/// Makes the kernel end a TCP connection whose other host does not answer: packets may be dropped without a word. An
/// idle one ends after 20 s; the host of a process that is stopped still answers. With `peer_reads`, one on which
/// something is on its way ends after a minute: only where the peer reads whatever it does, because a peer that does
/// not read looks the same. Where it may compute for long before it reads, heartbeats have to tell (FailureDetector).
inline void end_if_host_is_silent(int socket, bool peer_reads) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof(value));  // a wish: nothing depends on it while all is well
  };
  constexpr int kProbeSeconds = 5;
  constexpr int kProbes = 3;
  constexpr int kUnansweredMs = 60'000;
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  if (peer_reads) set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMs);
}

}  // namespace trireme::net
