#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace trireme {

/// A port of loopback that the system gives to nobody else while this lives, for programs that have to be told one.
/// They can listen there: this only binds it, and does so with SO_REUSEADDR, as they do.
class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int reuse = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) != 0 ||
        ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      fail_errno("cannot reserve a port");
    }
    number_ = ntohs(address.sin_port);
  }

  std::uint16_t number() const { return number_; }
  std::string text() const { return std::to_string(number_); }

 private:
  FileDescriptor socket_;
  std::uint16_t number_ = 0;
};

}  // namespace trireme
