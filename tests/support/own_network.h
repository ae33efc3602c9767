#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"

// Networks that a test makes for itself: as root, or where users may make namespaces. For processes of one thread.

namespace trireme {

/// Moves this process to a network of its own, in which there is nothing but loopback. False where that is not
/// permitted.
inline bool enter_own_network() { return ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; }

/// Moves this process to where process `pid` is: to its user namespace, from where its network can be changed, and to
/// its network if `network`.
inline void enter_namespaces_of(pid_t pid, bool network) {
  const auto enter = [&](const char* kind) {
    const FileDescriptor theirs(::open(fmt::format("/proc/{}/ns/{}", pid, kind).c_str(), O_RDONLY | O_CLOEXEC));
    return theirs && ::setns(theirs.get(), 0) == 0;
  };
  const bool is_root = ::geteuid() == 0;
  if (!enter("user") && !is_root) fail_errno("cannot enter a user namespace");  // root is refused its own
  if (network && !enter("net")) fail_errno("cannot enter a network");
}

/// Gives an interface of this network an IPv4 address of a /24 and brings it up.
inline void bring_up(const std::string& interface, const std::string& address) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  const auto set = [&](unsigned long what, const std::string& value) {
    sockaddr_in number{};
    number.sin_family = AF_INET;
    ::inet_pton(AF_INET, value.c_str(), &number.sin_addr);
    std::memcpy(&request.ifr_addr, &number, sizeof(number));
    if (::ioctl(socket.get(), what, &request) != 0) fail_errno(fmt::format("cannot set up {}", interface));
  };
  set(SIOCSIFADDR, address);
  set(SIOCSIFNETMASK, "255.255.255.0");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) fail_errno(fmt::format("cannot bring up {}", interface));
}

/// Pulls the cable.
inline void bring_down(const std::string& interface) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) fail_errno(fmt::format("cannot bring down {}", interface));
}

/// Lays a cable from this network to that of process `pid`; its ends have the same name in both.
inline void add_cable(const std::string& interface, pid_t pid) {
  std::vector<std::byte> message;
  const auto append = [&](const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    message.insert(message.end(), bytes, bytes + size);
    message.resize(NLMSG_ALIGN(message.size()));
  };
  const auto open = [&](unsigned short type) {
    const rtattr attribute{.rta_len = 0, .rta_type = type};
    append(&attribute, sizeof(attribute));
    return message.size() - sizeof(attribute);
  };
  const auto close = [&](std::size_t at) {
    const auto size = static_cast<unsigned short>(message.size() - at);
    std::memcpy(message.data() + at, &size, sizeof(size));
  };
  const auto add = [&](unsigned short type, const void* data, std::size_t size) {
    const std::size_t at = open(type);
    append(data, size);
    const auto exact = static_cast<unsigned short>(RTA_LENGTH(size));
    std::memcpy(message.data() + at, &exact, sizeof(exact));
  };
  nlmsghdr header{.nlmsg_type = RTM_NEWLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK};
  const ifinfomsg no_interface{};
  append(&header, sizeof(header));
  append(&no_interface, sizeof(no_interface));
  add(IFLA_IFNAME, interface.c_str(), interface.size() + 1);
  const std::size_t info = open(IFLA_LINKINFO);
  add(IFLA_INFO_KIND, "veth", 5);
  const std::size_t data = open(IFLA_INFO_DATA);
  const std::size_t peer = open(VETH_INFO_PEER);
  append(&no_interface, sizeof(no_interface));
  add(IFLA_IFNAME, interface.c_str(), interface.size() + 1);
  const auto where = static_cast<std::uint32_t>(pid);
  add(IFLA_NET_NS_PID, &where, sizeof(where));
  close(peer);
  close(data);
  close(info);
  header.nlmsg_len = static_cast<std::uint32_t>(message.size());
  std::memcpy(message.data(), &header, sizeof(header));

  const FileDescriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  alignas(nlmsghdr) char answer[1024];
  if (::send(socket.get(), message.data(), message.size(), 0) < 0 ||
      ::recv(socket.get(), answer, sizeof(answer), 0) < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) {
    fail_errno("cannot ask for a cable between two networks");
  }
  errno = -static_cast<const nlmsgerr*>(NLMSG_DATA(reinterpret_cast<nlmsghdr*>(answer)))->error;
  if (errno != 0) fail_errno("cannot lay a cable between two networks");
}

/// Bytes that went over an interface of this network so far.
struct CableTraffic {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};

inline CableTraffic cable_traffic(const std::string& interface) {
  std::ifstream table("/proc/self/net/dev");
  std::string word;
  while (table >> word) {
    if (word != interface + ":") continue;
    CableTraffic traffic;
    table >> traffic.received;
    for (int column = 1; column < 8; ++column) table >> word;
    table >> traffic.sent;
    return traffic;
  }
  fail<IoError>("there is no interface {}", interface);
}

}  // namespace trireme
