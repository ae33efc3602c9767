#include "chaos/connections.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"

namespace trireme::chaos {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kEstablished = 1u << 1;  // TCP_ESTABLISHED

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

FileDescriptor open_netlink() {
  FileDescriptor socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket) fail_errno("cannot ask the kernel about connections");
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return socket;
}

Question make_question(std::uint16_t type, std::uint16_t flags, std::uint8_t family) {
  Question question{};
  question.header = {.nlmsg_len = sizeof question,
                     .nlmsg_type = type,
                     .nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags),
                     .nlmsg_seq = 1,
                     .nlmsg_pid = 0};
  question.body.sdiag_family = family;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = kEstablished;
  return question;
}

/// Sends `question` and passes each message of the answer to `take`, until the end or an error; returns its errno.
template <typename Take>
int ask(const FileDescriptor& socket, const Question& question, Take take) {
  if (::send(socket.get(), &question, sizeof question, 0) < 0) return errno;
  alignas(nlmsghdr) std::array<char, 32768> buffer{};
  while (true) {
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got < 0) return errno;
    auto left = static_cast<unsigned>(got);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_DONE) return 0;
      if (message->nlmsg_type == NLMSG_ERROR) return -static_cast<nlmsgerr*>(NLMSG_DATA(message))->error;
      take(*static_cast<inet_diag_msg*>(NLMSG_DATA(message)));
    }
  }
}

std::set<std::uint32_t> sockets_of(pid_t pid) {
  std::set<std::uint32_t> inodes;
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code closed;
    const std::string target = fs::read_symlink(entry->path(), closed).string();
    constexpr std::string_view kPrefix = "socket:[";
    if (!target.starts_with(kPrefix)) continue;
    inodes.insert(static_cast<std::uint32_t>(std::strtoul(target.c_str() + kPrefix.size(), nullptr, 10)));
  }
  return inodes;
}

/// Returns 0 or an errno.
int destroy(const FileDescriptor& socket, std::uint8_t family, const inet_diag_sockid& id) {
  Question question = make_question(SOCK_DESTROY, NLM_F_ACK, family);
  question.body.id = id;
  return ask(socket, question, [](const inet_diag_msg&) {});
}

[[noreturn]] void refuse(int error) {
  errno = error;
  fail_errno(
      "connections cannot be cut here: it takes the right CAP_NET_ADMIN (root) and a kernel with "
      "CONFIG_INET_DIAG_DESTROY");
}

}  // namespace

std::size_t cut_connections(pid_t pid) {
  const FileDescriptor socket = open_netlink();
  const std::set<std::uint32_t> inodes = sockets_of(pid);
  std::size_t cut = 0;
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    std::vector<inet_diag_sockid> ids;
    const int problem = ask(socket, make_question(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, family), [&](const auto& message) {
      if (inodes.contains(message.idiag_inode)) ids.push_back(message.id);
    });
    if (problem != 0 && problem != ENOENT) refuse(problem);
    for (const inet_diag_sockid& id : ids) {
      const int failed = destroy(socket, family, id);
      if (failed == EPERM || failed == EOPNOTSUPP) refuse(failed);
      if (failed == 0) ++cut;  // else it has just ended by itself
    }
  }
  return cut;
}

void check_cutting_is_possible() {
  const FileDescriptor socket = open_netlink();
  inet_diag_sockid nobody{};
  nobody.idiag_cookie[0] = nobody.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (const int problem = destroy(socket, AF_INET, nobody); problem == EPERM || problem == EOPNOTSUPP) refuse(problem);
}

}  // namespace trireme::chaos
