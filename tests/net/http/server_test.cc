#include "net/http/server.h"

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/eventually.h"
#include "tests/support/http.h"

namespace trireme::net {
namespace {

using testing::HasSubstr;

class CountingFeed final : public HttpFeed {
 public:
  std::string next() override { return count_ < 3 ? std::to_string(++count_) : ""; }

 private:
  int count_ = 0;
};

class AnsweringHandler final : public HttpHandler {
 public:
  HttpReply answer(const HttpRequest& request) override {
    if (request.path == "/wrong") fail<InvalidArgument>("that is \"wrong\"");
    if (request.path == "/secret") fail<Unauthenticated>("who are you?");
    if (request.path == "/broken") throw std::runtime_error("broken");
    std::string query;
    for (const auto& [name, value] : request.query) query += name + "=" + value + ";";
    return {.type = "text/plain",
            .body = request.method + " " + request.path + " " + query + " " + request.body + " " + request.token};
  }
  std::unique_ptr<HttpFeed> feed(const HttpRequest& request) override {
    return request.path == "/feed" ? std::make_unique<CountingFeed>() : nullptr;
  }
};

const std::string kUpgrade =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    "dGhlIHNhbXBsZSBub25jZQ==\r\n";

class HttpServerTest : public testing::Test {
 protected:
  AnsweringHandler handler_;
  HttpServer server_{{.connections = 8, .request_within = std::chrono::seconds(30), .feed_every = 5ms}, handler_};
};

TEST_F(HttpServerTest, AnswersWithAStrictPolicy) {
  const auto answer = http_ask(server_.port(), "GET /a%20b?x=1&y=%2F+z");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "GET /a b x=1;y=/ z;  ");
  EXPECT_THAT(answer.head, HasSubstr("default-src 'none'; script-src 'self'"));
  EXPECT_THAT(answer.head, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(answer.head, HasSubstr("frame-ancestors 'none'"));
}

TEST_F(HttpServerTest, PassesOnBodyAndToken) {
  const auto answer = http_ask(server_.port(), "POST /do", "Authorization: Bearer abc\r\n", "{}");
  EXPECT_EQ(answer.body, "POST /do  {} abc");
}

TEST_F(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
  const RawClient client(server_.port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET /again HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    EXPECT_THAT(client.read("/again"), HasSubstr("200 OK"));
  }
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  const auto answer = http_ask(server_.port(), "HEAD /x");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "");
}

TEST_F(HttpServerTest, ExceptionsBecomeAnswers) {
  EXPECT_EQ(http_ask(server_.port(), "GET /wrong").status, 400);
  EXPECT_THAT(http_ask(server_.port(), "GET /wrong").body, HasSubstr(R"("that is \"wrong\"")"));
  EXPECT_EQ(http_ask(server_.port(), "GET /secret").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "GET /broken").status, 500);
}

TEST_F(HttpServerTest, RefusesForeignHostsOriginsAndMethods) {
  EXPECT_EQ(http_ask(server_.port(), "GET /", "", "", "evil.example").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "GET /", "", "", "localhost.evil.example").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "GET /", "", "", "").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "GET /", "Origin: http://evil.example\r\n").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "POST /", "Origin: http://evil.example\r\n").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "POST /", "Origin: null\r\n").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "POST /", "Origin: http://localhost:1\r\n").status, 403);
  EXPECT_EQ(http_ask(server_.port(), "POST /", "Origin: http://localhost\r\n").status, 200);
  EXPECT_EQ(http_ask(server_.port(), "PUT /").status, 405);
  EXPECT_EQ(http_ask(server_.port(), "OPTIONS /").status, 405);
}

TEST_F(HttpServerTest, RefusesAddressesThatMakeNoSense) {
  EXPECT_EQ(http_ask(server_.port(), "GET /%zz").status, 400);
  EXPECT_EQ(http_ask(server_.port(), "GET nothing").status, 400);
}

TEST_F(HttpServerTest, RefusesWhatIsTooLarge) {
  const auto answer = http_ask(server_.port(), "POST /", "", std::string(100 * 1024, 'x'));
  EXPECT_NE(answer.status, 200);
  const auto header = http_ask(server_.port(), "GET /", "X: " + std::string(32 * 1024, 'x') + "\r\n");
  EXPECT_NE(header.status, 200);
  EXPECT_EQ(http_ask(server_.port(), "GET /still-here").status, 200);
}

TEST_F(HttpServerTest, LetsGarbageGo) {
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x02\x00", 5), std::string(1000, '\0'), std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("\r\n\r\n\r\n hello\r\n\r\n")}) {
    const RawClient client(server_.port());
    client.send(garbage);
    client.send("\r\n\r\n");
    EXPECT_EQ(client.read("200 OK").find("200 OK"), std::string::npos);
  }
  EXPECT_EQ(http_ask(server_.port(), "GET /").status, 200);
}

TEST_F(HttpServerTest, SlowClientsDoNotKeepOthersOut) {
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(std::make_unique<RawClient>(server_.port()));
    slow.back()->send("GET / HTTP/1.1\r\nHos");
  }
  EXPECT_EQ(http_ask(server_.port(), "GET /").status, 200);
  EXPECT_LE(server_.connections(), 8u);
}

TEST_F(HttpServerTest, FeedsAWebSocket) {
  const RawClient client(server_.port());
  client.send("GET /feed HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n" + kUpgrade + "\r\n");
  const std::string text = client.read(
      "\x81\x01"
      "3");  // a text frame of one byte
  EXPECT_THAT(text, HasSubstr("101 Switching"));
  EXPECT_THAT(text, HasSubstr("\x81\x01"
                              "1"));
  EXPECT_THAT(text, HasSubstr("\x81\x01"
                              "2"));
}

TEST_F(HttpServerTest, AWebSocketThatIsGoneIsForgotten) {
  {
    const RawClient client(server_.port());
    client.send("GET /feed HTTP/1.1\r\nHost: localhost\r\n" + kUpgrade + "\r\n");
    EXPECT_THAT(client.read("101"), HasSubstr("101"));
  }
  EXPECT_TRUE(eventually([&] { return server_.connections() == 0; }));
}

TEST_F(HttpServerTest, RefusesWebSocketsOfOtherSites) {
  const auto other = http_ask(server_.port(), "GET /feed", "Origin: http://evil.example\r\n" + kUpgrade);
  EXPECT_EQ(other.status, 403);
  const RawClient nowhere(server_.port());
  nowhere.send("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n" + kUpgrade + "\r\n");
  EXPECT_THAT(nowhere.read("\r\n\r\n"), HasSubstr("404"));
}

TEST(HttpServer, EndsWithOpenConnections) {
  AnsweringHandler handler;
  auto server = std::make_unique<HttpServer>(HttpServerOptions{.feed_every = 1ms}, handler);
  const RawClient idle(server->port());
  const RawClient listener(server->port());
  listener.send("GET /feed HTTP/1.1\r\nHost: localhost\r\n" + kUpgrade + "\r\n");
  EXPECT_THAT(listener.read("\x81\x01"
                            "1"),
              HasSubstr("101"));
  server.reset();
}

TEST(HttpServer, ASuccessorKeepsThePort) {
  AnsweringHandler handler;
  auto first = std::make_unique<HttpServer>(HttpServerOptions{}, handler);
  const std::uint16_t port = first->port();
  const HttpServer beside({.port_before = port}, handler);
  EXPECT_NE(beside.port(), port);
  EXPECT_THROW(HttpServer({.port = port}, handler), IoError);
  first.reset();
  const HttpServer second({.port_before = port}, handler);
  EXPECT_EQ(second.port(), port);
}

TEST(HttpServer, ListensOnLoopbackOnly) {
  AnsweringHandler handler;
  EXPECT_THROW(HttpServer({.host = "0.0.0.0"}, handler), InvalidArgument);
  EXPECT_THROW(HttpServer({.host = "example.com"}, handler), InvalidArgument);
}

TEST(HttpServer, NamesOfLoopback) {
  for (const char* name : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3", "[::1]", "[::1]:80",
                           "a.localhost:1"}) {
    EXPECT_TRUE(names_loopback(name)) << name;
  }
  for (const char* name : {"", "example.com", "10.0.0.1", "127.0.0.1.example.com", "[::2]", "[::1]x", "0.0.0.0",
                           "localhost.com", "1271.0.0.1"}) {
    EXPECT_FALSE(names_loopback(name)) << name;
  }
}

}  // namespace
}  // namespace trireme::net
