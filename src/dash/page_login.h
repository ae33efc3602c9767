#pragma once

#include <optional>
#include <string>

#include "net/http/server.h"

namespace trireme::dash {

/// Who may read a page, and who may act.
///
/// To act, a request carries the token as `Authorization: Bearer …`, which pages of other sites cannot make a browser
/// do. Where the page is private, to read it takes the token, too, or a pass: a cookie that the browser gets for the
/// token, that scripts do not see, and with which nothing can be done but reading. The link that people are given has
/// the token behind the #, which browsers keep to themselves; a small page without any content hands it in.
class PageLogin {
 public:
  PageLogin(std::string token, bool private_page);

  /// Returns the answer to a request that must not go further: a page to log in, a refusal, or a pass; nullopt if it
  /// may.
  std::optional<net::HttpReply> before(const net::HttpRequest& request) const;

  /// Throw Unauthenticated.
  void check_read(const net::HttpRequest& request) const;
  void check_action(const net::HttpRequest& request) const;

 private:
  bool may_read(const net::HttpRequest& request) const;
  bool has_token(const net::HttpRequest& request) const;

  const std::string token_;
  const std::string pass_;  // made of the token: a successor of this server accepts it
  const bool private_;
};

}  // namespace trireme::dash
