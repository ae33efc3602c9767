#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "trireme/deadline.h"

#include "base/file.h"

namespace trireme {

/// A connection to a server on this machine's loopback, byte by byte: what it says need not be HTTP.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }

  /// Returns false if the server has closed the connection.
  bool send(std::string_view text) const {
    return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }

  /// Reads until `until` came, or the server closes, or the deadline passes.
  std::string read(std::string_view until = "", std::chrono::milliseconds within = std::chrono::seconds(20)) const {
    std::string text;
    const Deadline deadline = Deadline::in(within);
    while (!deadline.passed() && (until.empty() || text.find(until) == text.npos)) {
      pollfd waiting{socket_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      char block[4096];
      const ssize_t got = ::recv(socket_.get(), block, sizeof(block), 0);
      if (got <= 0) break;
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  FileDescriptor socket_;
};

struct HttpAnswerText {
  int status = 0;
  std::string head;
  std::string body;
};

/// Sends one request as it is written, with `Connection: close` added, and returns the answer.
inline HttpAnswerText http_ask(std::uint16_t port, const std::string& request_line, const std::string& headers = "",
                               const std::string& body = "", const std::string& host = "localhost") {
  const RawClient client(port);
  client.send(request_line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
  const std::string text = client.read();
  HttpAnswerText answer;
  if (text.size() > 12) answer.status = std::atoi(text.c_str() + 9);
  const auto end = text.find("\r\n\r\n");
  answer.head = text.substr(0, end);
  if (end != text.npos) answer.body = text.substr(end + 4);
  return answer;
}

}  // namespace trireme
