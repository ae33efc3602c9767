#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/secure/certificate.h"

namespace trireme::net {

struct HttpRequest {
  std::string method;                        ///< "GET", "HEAD" or "POST": others are refused before
  std::string path;                          ///< decoded, without the query: "/api/runs"
  std::map<std::string, std::string> query;  ///< decoded
  std::string body;
  std::string token;   ///< of `Authorization: Bearer …`; empty = none
  std::string pass;    ///< of the cookie kPassCookie; empty = none
  std::string accept;  ///< the header of that name
};

/// The name of the one cookie that is heeded; `__Host-` binds it to this host, and to TLS.
inline constexpr std::string_view kPassCookie = "__Host-trireme";

struct HttpReply {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< besides those that every answer has
};

/// What one WebSocket is told, piece by piece. Used by the server's thread only.
class HttpFeed {
 public:
  virtual ~HttpFeed() = default;

  /// Returns what is new since the last call, as the text of one message; empty = nothing is. Called again and again,
  /// every HttpServerOptions::feed_every, as long as somebody listens.
  virtual std::string next() = 0;
};

/// Answers requests. All calls come from the server's one thread: an answer that takes long delays others that ask, and
/// nobody else.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  /// Exceptions of the family in base/error.h become answers: InvalidArgument 400, Unauthenticated 403, others 500,
  /// with
  /// `{"error": …}`.
  virtual HttpReply answer(const HttpRequest& request) = 0;

  /// Returns the feed for a WebSocket that was opened with `request`; null = there is none at that path.
  virtual std::unique_ptr<HttpFeed> feed(const HttpRequest& request) = 0;
};

struct HttpServerOptions {
  std::string name = "http";       ///< of its thread
  std::string host = "127.0.0.1";  ///< to listen on: an address; without TLS, one of the loopback interface
  std::uint16_t port = 0;          ///< 0 = any free one
  std::uint16_t port_before = 0;   ///< tried first if `port` is 0: a successor keeps the link that people have
  std::size_t connections = 64;    ///< at a time; with more, one that asks nothing has to go
  std::size_t largest_request = 64UL * 1024;
  std::chrono::milliseconds request_within{10000};  ///< a client that takes longer to ask is let go
  std::chrono::milliseconds feed_every{500};
  std::optional<Certificate> tls = {};  ///< https, with this certificate; nullopt = http
  std::string shown_host = {};          ///< for url(), where `host` is no name for others: "node7"; empty = `host`
};

/// A small HTTP/1.1 server with WebSockets, on Boost.Beast, for pages that people look at.
///
/// Without TLS it listens on loopback only, and `Host` must name this machine's loopback (against DNS rebinding). With
/// TLS it listens anywhere, and who may read what is the handler's to decide. Either way a browser is not tricked into
/// talking to it: whatever changes something or opens a WebSocket must come from a page of this server (`Origin`).
/// Every answer carries a strict Content-Security-Policy. Slow clients, garbage and too many connections cost nobody
/// else anything. One thread of its own.
class HttpServer {
 public:
  /// `handler` outlives it. Throws IoError if it cannot listen, InvalidArgument if the host is not loopback and there
  /// is no TLS, or the certificate and its key make no sense.
  HttpServer(const HttpServerOptions& options, HttpHandler& handler);
  ~HttpServer();

  std::uint16_t port() const;
  std::string url() const;  ///< "http://127.0.0.1:41234/", "https://node7:8000/"

  /// Returns how many connections are open.
  std::size_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether `host`, as browsers send it, with or without a port, is a name of the loopback interface: "localhost:80".
bool names_loopback(std::string_view host);

/// Decodes `%41` and `+` into `decoded`; returns false if they are not valid.
bool decode_url(std::string_view text, std::string& decoded);

}  // namespace trireme::net
