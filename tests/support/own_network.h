#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
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

/// Asks the kernel for a change of this network. Throws IoError that says `what` could not be done.
inline void ask_kernel(const void* message, std::size_t size, const std::string& what) {
  const FileDescriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  alignas(nlmsghdr) char answer[1024];
  if (::send(socket.get(), message, size, 0) < 0 ||
      ::recv(socket.get(), answer, sizeof(answer), 0) < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) {
    fail_errno("cannot " + what);
  }
  errno = -static_cast<const nlmsgerr*>(NLMSG_DATA(reinterpret_cast<nlmsghdr*>(answer)))->error;
  if (errno != 0) fail_errno("cannot " + what);
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

  ask_kernel(message.data(), message.size(), "lay a cable between two networks");
}

/// Makes this network pass on packets from one of its cables to another, also where the way back is cut.
inline void become_router() {
  const auto set = [](const char* what, char value) {
    std::ofstream(std::string("/proc/sys/net/ipv4/") + what) << value << std::flush;
  };
  set("conf/all/rp_filter", '0');
  set("conf/default/rp_filter", '0');  // of cables to come
  set("ip_forward", '1');
}

/// Sends what is for other networks to `router`, which must be at the other end of a cable.
inline void set_router(const std::string& router) {
  struct {
    nlmsghdr header;
    rtmsg route;
    rtattr gateway;
    in_addr router;
  } message{};
  message.header = {.nlmsg_len = sizeof(message),
                    .nlmsg_type = RTM_NEWROUTE,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL};
  message.route = {.rtm_family = AF_INET,
                   .rtm_table = RT_TABLE_MAIN,
                   .rtm_protocol = RTPROT_STATIC,
                   .rtm_scope = RT_SCOPE_UNIVERSE,
                   .rtm_type = RTN_UNICAST};
  message.gateway = {.rta_len = RTA_LENGTH(sizeof(in_addr)), .rta_type = RTA_GATEWAY};
  ::inet_pton(AF_INET, router.c_str(), &message.router);
  ask_kernel(&message, sizeof(message), "set the way to other networks");
}

/// A router loses all packets from one address to another, without a word, or no longer does.
inline void lose_packets(const std::string& from, const std::string& to, bool lose) {
  struct {
    nlmsghdr header;
    fib_rule_hdr rule;
    rtattr source;
    in_addr from;
    rtattr destination;
    in_addr to;
  } message{};
  message.header = {.nlmsg_len = sizeof(message),
                    .nlmsg_type = static_cast<std::uint16_t>(lose ? RTM_NEWRULE : RTM_DELRULE),
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK};
  if (lose) message.header.nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
  message.rule = {.family = AF_INET, .dst_len = 32, .src_len = 32, .action = FR_ACT_BLACKHOLE};
  message.source = {.rta_len = RTA_LENGTH(sizeof(in_addr)), .rta_type = FRA_SRC};
  message.destination = {.rta_len = RTA_LENGTH(sizeof(in_addr)), .rta_type = FRA_DST};
  ::inet_pton(AF_INET, from.c_str(), &message.from);
  ::inet_pton(AF_INET, to.c_str(), &message.to);
  ask_kernel(&message, sizeof(message), "change which packets a router loses");
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
