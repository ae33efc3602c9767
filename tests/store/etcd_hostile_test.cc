// Something at etcd's address answers nonsense, too much, too slowly or not at all.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "store/etcd_store.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"

namespace trireme::store {
namespace {

/// Listens, and says the same to everybody who asked something: `words`, then `more` again and again.
class HostileServer {
 public:
  struct Manner {
    std::string words;
    std::string more = {};
    std::chrono::milliseconds pause = 0ms;  ///< before each `more`
    bool hang = false;                      ///< keep silent at the end instead of closing
  };

  explicit HostileServer(Manner manner) : manner_(std::move(manner)) {
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), raw, size) != 0 || ::listen(listener_.get(), 8) != 0 ||
        ::getsockname(listener_.get(), raw, &size) != 0) {
      fail_errno("cannot listen");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }

  net::Address address() const { return {.host = "127.0.0.1", .port = port_}; }

 private:
  static bool readable(const FileDescriptor& socket) {
    pollfd entry{socket.get(), POLLIN, 0};
    return ::poll(&entry, 1, 10) > 0;
  }

  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!readable(listener_)) continue;
      const FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      answer(client, stop);
    }
  }

  void answer(const FileDescriptor& client, const std::stop_token& stop) {
    char question[4096];
    while (!readable(client)) {
      if (stop.stop_requested()) return;
    }
    if (::recv(client.get(), question, sizeof(question), 0) <= 0) return;
    if (!say(client, manner_.words)) return;
    while (!manner_.more.empty() && !stop.stop_requested()) {
      std::this_thread::sleep_for(manner_.pause);
      if (!say(client, manner_.more)) return;
    }
    while (manner_.hang && !stop.stop_requested()) {
      if (readable(client) && ::recv(client.get(), question, sizeof(question), 0) <= 0) return;
    }
  }

  static bool say(const FileDescriptor& client, const std::string& words) {
    return ::send(client.get(), words.data(), words.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(words.size());
  }

  const Manner manner_;
  FileDescriptor listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

std::string answer(const std::string& body, const std::string& status = "200 OK") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

constexpr auto kCall = 250ms;  // for those that are to pass
constexpr auto kRetried = 1s;  // of what is asked again until then
constexpr auto kAtOnce = 10s;  // of what fails with the first answer, however late that is

/// Asks a server of that manner; it fails as `E` with all of `texts`, and does not hang.
template <typename E>
void expect_failure(const HostileServer::Manner& manner, const std::vector<std::string>& texts,
                    std::chrono::milliseconds call_within = kAtOnce) {
  const HostileServer server(manner);
  const auto store = open_etcd_store({.members = {server.address()}}, call_within);
  expect_ends_within(call_within + 5s, [&] {
    try {
      store->get("key");
      ADD_FAILURE() << "should have failed";
    } catch (const E& problem) {
      EXPECT_THAT(problem.what(), ::testing::HasSubstr("http://" + server.address().text()));
      for (const std::string& text : texts) EXPECT_THAT(problem.what(), ::testing::HasSubstr(text));
    }
  });
}

TEST(HostileEtcd, AnswersNoHttp) {
  expect_failure<Corrupt>({.words = "SSH-2.0-OpenSSH_9.2p1\r\n\r\n"}, {"does not answer", "in HTTP"});
  expect_failure<Corrupt>({.words = std::string("\0\xff\x01garbage\r\n\r\n", 14)}, {"in HTTP"});
  expect_failure<Corrupt>({.words = "HTTP/1.1 200 OK\r\n", .more = "X-Header: " + std::string(500, 'x') + "\r\n"},
                          {"in HTTP"});
}

TEST(HostileEtcd, AnswersNoJson) {
  expect_failure<Corrupt>({.words = answer("<html>hello</html>")}, {"not JSON", "<html>hello", "is it etcd?"});
  expect_failure<Corrupt>({.words = answer("")}, {"not JSON"});
  expect_failure<Corrupt>({.words = answer("{\"kvs\":[{\"key\"")}, {"not JSON"});
  expect_failure<Corrupt>({.words = answer("[1,2]")}, {"not JSON"});
  expect_failure<Corrupt>({.words = answer(std::string(100000, '['))}, {"not JSON"});
  expect_failure<Corrupt>({.words = answer("404 page not found", "404 Not Found")}, {"status 404", "3.4 or newer"});
}

TEST(HostileEtcd, AnswersJsonOfAnotherShape) {
  for (const char* body : {R"({"kvs":7})", R"({"kvs":["a"]})", R"({"kvs":[{"key":1}]})", R"({"kvs":[{"key":"a b*"}]})",
                           R"({"kvs":[{"key":"YQ==","version":"many"}]})", R"({"kvs":[{"key":"YQ==","lease":7}]})",
                           R"({"kvs":[{"key":"YQ==","version":"99999999999999999999"}]})"}) {
    expect_failure<Corrupt>({.words = answer(body)}, {"/v3/kv/range with JSON of another shape"});
  }
}

TEST(HostileEtcd, BreaksOff) {
  expect_failure<IoError>({.words = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kvs\""},
                          {"middle of its answer"}, kRetried);
  expect_failure<IoError>({.words = "HTTP/1.1 200"}, {"middle of its answer"}, kRetried);
  expect_failure<IoError>({.words = ""}, {"closed the connection"}, kRetried);
}

TEST(HostileEtcd, AnswersTooMuch) {
  expect_failure<Corrupt>({.words = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n{", .hang = true},
                          {"more than", "bytes"});
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", 1 << 20, std::string(1 << 20, ' '));
  expect_failure<Corrupt>({.words = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", .more = chunk},
                          {"more than", "bytes"}, 20s);
}

TEST(HostileEtcd, IsSlowOrSilent) {
  expect_failure<Timeout>({.words = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", .more = "x", .pause = 20ms},
                          {"did not answer /v3/kv/range within 250 ms"}, kCall);
  expect_failure<Timeout>({.words = "", .hang = true}, {"did not answer /v3/kv/range within 250 ms"}, kCall);
}

TEST(HostileEtcd, Refuses) {
  const auto refusal = [](int code, const std::string& message) {
    return answer(fmt::format(R"({{"error":"{0}","message":"{0}","code":{1}}})", message, code), "500 Oops");
  };
  expect_failure<Timeout>({.words = refusal(14, "etcdserver: no leader")}, {"no leader", "etcdctl endpoint health"},
                          kRetried);
  expect_failure<InvalidArgument>({.words = refusal(3, "etcdserver: request is too large")}, {"too large"});
  expect_failure<IoError>({.words = refusal(8, "etcdserver: mvcc: database space exceeded")},
                          {"space exceeded", "see the log of that etcd"});
  expect_failure<IoError>({.words = answer("{}", "500 Oops")}, {"refuses /v3/kv/range"});
}

}  // namespace
}  // namespace trireme::store
