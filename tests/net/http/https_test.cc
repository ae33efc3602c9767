// The HTTP server over TLS: for pages that people on other machines open.

#include "tests/support/https.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "net/http/server.h"
#include "net/secure/certificate.h"

namespace trireme::net {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class PassHandler final : public HttpHandler {
 public:
  HttpReply answer(const HttpRequest& request) override {
    return {.type = "text/plain", .body = request.path + " pass=" + request.pass + " token=" + request.token};
  }
  std::unique_ptr<HttpFeed> feed(const HttpRequest& request) override {
    if (request.pass != "p") fail<Unauthenticated>("no pass");
    return std::make_unique<OneWord>();
  }

 private:
  struct OneWord final : HttpFeed {
    std::string next() override { return "word"; }
  };
};

class HttpsTest : public testing::Test {
 protected:
  const Certificate certificate_ = make_certificate({"node7", "10.0.0.7"});
  PassHandler handler_;
  HttpServer server_{{.host = "0.0.0.0", .tls = certificate_, .shown_host = "node7"}, handler_};
};

TEST_F(HttpsTest, AnswersUnderItsOwnNameWithItsCertificate) {
  EXPECT_EQ(server_.url(), "https://node7:" + std::to_string(server_.port()) + "/");
  const HttpsAnswer answer = https_ask(server_.port(), "GET /a", "Cookie: x=1; __Host-trireme=p; y=2\r\n", "", "node7");
  EXPECT_EQ(answer.http.status, 200);
  EXPECT_EQ(answer.http.body, "/a pass=p token=");
  EXPECT_EQ(answer.fingerprint, fingerprint(certificate_));
}

TEST_F(HttpsTest, PagesOfOtherSitesAreRefused) {
  const auto origin = [&](const std::string& from) {
    return https_ask(server_.port(), "POST /a", "Origin: " + from + "\r\n", "", "node7").http.status;
  };
  EXPECT_EQ(origin("https://node7"), 200);
  EXPECT_EQ(origin("http://node7"), 403);
  EXPECT_EQ(origin("https://evil.example"), 403);
}

TEST_F(HttpsTest, AFeedNeedsWhatTheHandlerAsksFor) {
  const std::string upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
      "dGhlIHNhbXBsZSBub25jZQ==\r\n";
  EXPECT_EQ(https_ask(server_.port(), "GET /feed", upgrade, "", "node7").http.status, 403);
  const auto answer =
      https_ask(server_.port(), "GET /feed", upgrade + "Cookie: __Host-trireme=p\r\n", "", "node7", "word");
  EXPECT_EQ(answer.http.status, 101);
  EXPECT_THAT(answer.http.body, HasSubstr("word"));
}

TEST_F(HttpsTest, PlainHttpAndGarbageGetNothing) {
  const RawClient plain(server_.port());
  plain.send("GET / HTTP/1.1\r\nHost: node7\r\n\r\n");
  EXPECT_EQ(plain.read().find("200 OK"), std::string::npos);
  EXPECT_EQ(https_ask(server_.port(), "GET /a", "", "", "node7").http.status, 200) << "others are served";
}

TEST(HttpServer, BeyondLoopbackThereIsNothingWithoutTls) {
  PassHandler handler;
  EXPECT_THROW(HttpServer({.host = "0.0.0.0"}, handler), InvalidArgument);
}

TEST(Certificate, WrongOnesAreRefused) {
  const Certificate one = make_certificate({"a"});
  const Certificate other = make_certificate({"a"});
  EXPECT_THAT(fingerprint(one), MatchesRegex("([0-9A-F][0-9A-F]:)+[0-9A-F][0-9A-F]"));
  EXPECT_NE(fingerprint(one), fingerprint(other));
  EXPECT_NO_THROW(make_server_context(one));
  EXPECT_NO_THROW(make_server_context({.chain = one.chain + one.key, .key = one.chain + one.key})) << "one file";
  EXPECT_THROW(make_server_context({.chain = one.chain, .key = other.key}), InvalidArgument);
  EXPECT_THROW(make_server_context({.chain = "no", .key = "no"}), InvalidArgument);
  EXPECT_THROW(fingerprint({}), InvalidArgument);
  EXPECT_THROW(make_certificate({"a,DNS:b"}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::net
