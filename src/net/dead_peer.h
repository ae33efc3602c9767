#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

namespace trireme::net {

/// Makes the kernel end a TCP connection whose other host does not answer: packets may be dropped without a word. An
/// idle one ends after 20 s; the host of a process that is stopped still answers. With `peer_reads`, one on which
/// something is on its way ends after a minute: only where the peer reads whatever it does, because a peer that does
/// not read looks the same. Where it may compute for long before it reads, heartbeats have to tell (FailureDetector).
/// `watched`: probes go on as `watch_host` says, and whoever looks at `silence_of` comes first.
inline void end_if_host_is_silent(int socket, bool peer_reads, bool watched = false) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof(value));  // a wish: nothing depends on it while all is well
  };
  constexpr int kProbeSeconds = 5;
  constexpr int kProbes = 3;
  constexpr int kUnansweredMs = 60'000;
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  if (!watched) {
    set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  }
  if (peer_reads) set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMs);
}

/// Makes the kernel ask the other host for a sign of life every second, so that `silence_of` tells the truth. While a
/// connection is being made, it also ends it after `silent_after`: nobody waits longer for the first answer of a host.
inline void watch_host(int socket, std::chrono::milliseconds silent_after) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof(value));  // a wish, as above
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silent_after.count()));
}

/// The connection stands, and is not ended by `watch_host` any more, however long its peer does not read.
inline void stop_watching(int socket) {
  const int forever = 0;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &forever, sizeof(forever));
}

/// Returns how long the other host of a TCP connection has not acknowledged anything. A process that is stopped makes
/// no difference: its host answers; though less and less often while there is no room for what we send.
inline std::chrono::milliseconds silence_of(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::chrono::milliseconds(0);
  return std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
}

}  // namespace trireme::net
