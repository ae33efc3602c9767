#pragma once

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "net/connection.h"
#include "net/service.h"
#include "tests/support/secret.h"

namespace trireme::net {

struct Text {
  std::string text;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Text, text)
};

enum EchoRequest : std::uint16_t { kEcho = 1, kFail = 2, kSilence = 3, kShortPayload = 4 };

/// Sends back what it gets.
class EchoHandler : public RequestHandler {
 public:
  void on_request(const SessionPtr& session, InFrame frame) override {
    ++requests;
    const Bytes payload = frame.payload_bytes();
    switch (frame.header.kind) {
      case kEcho:
        return session->reply(frame.header, decode_json(frame.body_bytes()), {payload}, frame.payload);
      case kFail:
        fail<InvalidArgument>("that cannot be done");
      case kSilence:
        return;
      case kShortPayload:
        return session->reply(frame.header, Text{"nothing"});
      default:
        fail<InvalidArgument>("kind {}", frame.header.kind);
    }
  }
  void on_disconnect(const SessionPtr& /*session*/, const std::string& /*reason*/) override { ++disconnects; }

  std::atomic<int> requests{0};
  std::atomic<int> disconnects{0};
};

inline ServiceOptions echo_options() { return {.listener = {.name = "echo", .secret = kSecret}}; }

inline ConnectionOptions connect_options(Transport transport, std::chrono::milliseconds within = 10s) {
  return {.secret = kSecret, .transport = transport, .peer_name = "the echo", .deadline = Deadline::in(within)};
}

inline std::string ask(Connection& connection, const std::string& text, std::chrono::milliseconds within = 10s) {
  return connection.call<Text>(kEcho, 0, Text{text}, Deadline::in(within), "an echo").text;
}

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

/// Another process that runs an echo service. To be made before this process has threads.
class ChildService {
 public:
  ChildService() {
    int ends[2];
    if (::pipe(ends) != 0) fail_errno("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      EchoHandler handler;
      const Service service(echo_options(), handler);
      const std::string address = encode_message(service.address());
      if (::write(ends[1], address.data(), address.size()) < 0) ::_exit(1);
      for (;;) ::pause();
    }
    char buffer[1024];
    const auto got = ::read(ends[0], buffer, sizeof(buffer));
    ::close(ends[0]);
    ::close(ends[1]);
    address_ = decode_message<Address>(as_bytes(std::string_view(buffer, static_cast<std::size_t>(got))));
  }
  ~ChildService() {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildService(const ChildService&) = delete;
  ChildService& operator=(const ChildService&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  /// Stops it; returns when all its threads are.
  void stop() const {
    signal(SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  const Address& address() const { return address_; }

 private:
  pid_t pid_;
  Address address_;
};

}  // namespace trireme::net
