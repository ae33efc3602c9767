#include "dash/page_login.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme::dash {
namespace {

using net::HttpRequest;
using testing::HasSubstr;
using testing::Not;

const std::string kPageToken = "0123456789abcdef";

TEST(PageLogin, OnLoopbackEverybodyReadsAndTheTokenActs) {
  const PageLogin login(kPageToken, /*private_page=*/false);
  EXPECT_FALSE(login.before({.method = "GET", .path = "/api/run"}).has_value());
  EXPECT_NO_THROW(login.check_read({}));
  EXPECT_THROW(login.check_action({}), Unauthenticated);
  EXPECT_THROW(login.check_action({.token = "0123456789abcdeX"}), Unauthenticated);
  EXPECT_NO_THROW(login.check_action({.token = kPageToken}));
}

TEST(PageLogin, APrivatePageShowsNothingWithoutTheToken) {
  const PageLogin login(kPageToken, /*private_page=*/true);
  const auto front = login.before({.method = "GET", .path = "/"});
  ASSERT_TRUE(front.has_value());
  EXPECT_EQ(front->status, 401u);
  EXPECT_THAT(front->body, HasSubstr("/login.js"));
  EXPECT_EQ(login.before({.method = "GET", .path = "/login.js"})->type, "text/javascript");
  for (const char* path : {"/api/run", "/api/runs", "/metrics", "/readyz", "/assets/index.js"}) {
    EXPECT_THROW(login.before({.method = "GET", .path = path}), Unauthenticated) << path;
  }
  EXPECT_THROW(login.check_read({.path = "/api/feed"}), Unauthenticated);
  EXPECT_FALSE(login.before({.method = "GET", .path = "/metrics", .token = kPageToken}).has_value());
}

TEST(PageLogin, ForTheTokenThereIsAPassWithWhichOneReadsAndDoesNothingElse) {
  const PageLogin login(kPageToken, /*private_page=*/true);
  EXPECT_THROW(login.before({.method = "POST", .path = "/api/login"}), Unauthenticated);
  const auto reply = login.before({.method = "POST", .path = "/api/login", .token = kPageToken});
  ASSERT_TRUE(reply.has_value());
  const std::string cookie = reply->headers.at(0).second;
  EXPECT_THAT(cookie, HasSubstr("Secure; HttpOnly; SameSite=Strict"));
  EXPECT_THAT(cookie, Not(HasSubstr(kPageToken)));
  const auto begin = cookie.find('=') + 1;
  const std::string pass = cookie.substr(begin, cookie.find(';') - begin);
  EXPECT_FALSE(login.before({.method = "GET", .path = "/api/run", .pass = pass}).has_value());
  EXPECT_NO_THROW(login.check_read({.pass = pass}));
  EXPECT_THROW(login.check_action({.pass = pass}), Unauthenticated);
  EXPECT_THROW(login.check_read({.pass = pass + "0"}), Unauthenticated);
  EXPECT_NO_THROW(PageLogin(kPageToken, true).check_read({.pass = pass})) << "a master that takes over accepts it";
}

}  // namespace
}  // namespace trireme::dash
