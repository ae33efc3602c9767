#include "net/http/server.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <optional>
#include <string_view>
#include <thread>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include "base/error.h"
#include "base/log.h"
#include "net/asio.h"
#include "net/event_loop.h"

namespace trireme::net {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kLargestHeader = 16UL * 1024;
constexpr std::size_t kLargestWord = 4096;      // from a WebSocket: nobody has to say anything there
constexpr double kSlowestReader = 50.0 * 1024;  // bytes a second that a client must take at least
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;
using SecureStream = asio::ssl::stream<beast::tcp_stream&>;

std::string json_text(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

HttpReply problem_reply(unsigned status, std::string_view what) {
  return {.status = status, .body = fmt::format("{{\"error\": {}}}\n", json_text(what))};
}

std::string_view field_of(const Request& request, http::field name) {
  const auto found = request.find(name);
  if (found == request.end()) return {};
  return {found->value().data(), found->value().size()};
}

/// Returns the value of the cookie of that name; empty if there is none.
std::string_view cookie_of(const Request& request, std::string_view name) {
  for (std::string_view left = field_of(request, http::field::cookie); !left.empty();) {
    const std::string_view one = left.substr(0, left.find(';'));
    left.remove_prefix(std::min(left.size(), one.size() + 1));
    while (!left.empty() && left.front() == ' ') left.remove_prefix(1);
    if (one.starts_with(name) && one.size() > name.size() && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

bool names_loopback(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end != host.npos && host.substr(0, end + 1) == "[::1]" && (end + 1 == host.size() || host[end + 1] == ':');
  }
  host = host.substr(0, host.find(':'));
  std::string lower(host);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "localhost" || lower.ends_with(".localhost")) return true;
  boost::system::error_code bad;
  const auto address = asio::ip::make_address_v4(lower, bad);
  return !bad && address.is_loopback();
}

bool decode_url(std::string_view text, std::string& decoded) {
  decoded.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      const auto digit = [](char c) -> int {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      };
      if (i + 2 >= text.size()) return false;
      const int high = digit(text[i + 1]);
      const int low = digit(text[i + 2]);
      if (high < 0 || low < 0) return false;
      decoded += static_cast<char>(16 * high + low);
      i += 2;
    }
  }
  return true;
}

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpHandler& handler)
      : options_(options), handler_(handler), acceptor_(context_) {
    if (options_.tls) tls_ = make_server_context(*options_.tls);
    listen();
    asio::co_spawn(context_, accept(), asio::detached);
    thread_ = std::jthread([this] {
      name_thread(options_.name);
      context_.run();
    });
  }

  ~Impl() {
    context_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  std::string url() const {
    return fmt::format("{}://{}:{}/", scheme(), options_.shown_host.empty() ? host_ : options_.shown_host, port_);
  }
  std::size_t connections() const { return open_.load(); }

 private:
  /// One client. `idle`: it has asked nothing yet, or nothing more.
  struct Client {
    explicit Client(tcp::socket socket) : stream(std::move(socket)) {}
    beast::tcp_stream stream;
    bool idle = true;
  };
  using Clients = std::list<std::shared_ptr<Client>>;

  const char* scheme() const { return tls_ ? "https" : "http"; }

  void listen() {
    boost::system::error_code problem;
    const auto address = asio::ip::make_address(options_.host == "localhost" ? "127.0.0.1" : options_.host, problem);
    if (problem) fail<InvalidArgument>("'{}' is not an address, such as 127.0.0.1 or 0.0.0.0", options_.host);
    if (!tls_ && !address.is_loopback()) {
      fail<InvalidArgument>(
          "'{}' is not an address of this machine's loopback interface, such as 127.0.0.1: pages for other machines "
          "need "
          "TLS",
          options_.host);
    }
    host_ = address.is_v6() ? fmt::format("[{}]", address.to_string()) : address.to_string();
    const std::uint16_t first = options_.port != 0 ? options_.port : options_.port_before;
    if (!try_listen({address, first}, problem) && (options_.port != 0 || !try_listen({address, 0}, problem))) {
      fail<IoError>("cannot listen on {}:{}: {}", options_.host, first, problem.message());
    }
    port_ = acceptor_.local_endpoint().port();
  }

  bool try_listen(const tcp::endpoint& where, boost::system::error_code& problem) {
    problem = {};
    acceptor_.close();
    acceptor_.open(where.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(where, problem);
    if (!problem) acceptor_.listen(128, problem);
    return !problem;
  }

  awaitable<void> accept() {
    for (;;) {
      boost::system::error_code problem;
      tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(use_awaitable, problem));
      if (problem) {  // too many descriptors: some will be free again
        asio::steady_timer pause(context_, 100ms);
        co_await pause.async_wait(use_awaitable);
        continue;
      }
      if (clients_.size() >= options_.connections && !make_room()) continue;  // the socket closes
      clients_.push_back(std::make_shared<Client>(std::move(socket)));
      open_ = clients_.size();
      asio::co_spawn(context_, serve(std::prev(clients_.end())), asio::detached);
    }
  }

  /// Lets go the client that has been idle for longest. It ends by itself when its operation fails.
  bool make_room() {
    const auto idle = std::ranges::find_if(clients_, [](const auto& client) { return client->idle; });
    if (idle == clients_.end()) return false;
    (*idle)->idle = false;  // it is gone already
    (*idle)->stream.close();
    return true;
  }

  awaitable<void> serve(Clients::iterator place) {
    const std::shared_ptr<Client> client = *place;
    try {
      if (tls_) {
        SecureStream stream(client->stream, *tls_);
        client->stream.expires_after(options_.request_within);
        co_await stream.async_handshake(asio::ssl::stream_base::server, use_awaitable);
        co_await talk(*client, stream);
      } else {
        co_await talk(*client, client->stream);
      }
    } catch (const std::exception&) {  // it went away, was too slow, or does not speak HTTP
    }
    boost::system::error_code ignored;
    client->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    client->stream.close();
    clients_.erase(place);
    open_ = clients_.size();
  }

  template <typename Stream>
  awaitable<void> talk(Client& client, Stream& stream) {
    beast::flat_buffer buffer;
    for (bool more = true; more;) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(kLargestHeader);
      parser.body_limit(options_.largest_request);
      client.idle = true;
      client.stream.expires_after(options_.request_within);
      boost::system::error_code problem;
      co_await http::async_read(stream, buffer, parser, asio::redirect_error(use_awaitable, problem));
      if (problem == http::error::body_limit || problem == http::error::header_limit) {
        co_await send(client, stream, {}, problem_reply(413, "the request is too large"), /*keep=*/false);
        co_return;
      }
      if (problem) throw boost::system::system_error(problem);
      if (!client.stream.socket().is_open()) co_return;
      client.idle = false;
      const Request request = parser.release();
      if (websocket::is_upgrade(request)) {
        if (const auto refusal = why_refused(request, /*must_be_ours=*/true)) {
          co_await send(client, stream, request, problem_reply(403, *refusal), false);
          co_return;
        }
        co_await feed(client, stream, request);
        co_return;
      }
      more = request.keep_alive();
      const HttpReply reply = answer(request);
      co_await send(client, stream, request, reply, more);
    }
  }

  /// Returns why a request is not even looked at; nullopt = it is.
  std::optional<std::string> why_refused(const Request& request, bool must_be_ours) const {
    const std::string_view host = field_of(request, http::field::host);
    if (!tls_ && !names_loopback(host)) {
      return "this page is asked for by a name of this machine's loopback, such as localhost or 127.0.0.1";
    }
    const std::string_view origin = field_of(request, http::field::origin);
    const bool ours = origin == fmt::format("{}://{}", scheme(), host);
    if (!origin.empty() && !ours) return "a page of another site asks";
    if (must_be_ours && origin.empty() && !field_of(request, http::field::referer).empty()) return "who asks?";
    return std::nullopt;
  }

  /// Returns false if it makes no sense.
  static bool take_apart(const Request& request, HttpRequest& parts) {
    parts.method = std::string(request.method_string());
    parts.body = request.body();
    parts.accept = std::string(field_of(request, http::field::accept));
    const std::string_view token = field_of(request, http::field::authorization);
    if (token.starts_with("Bearer ")) parts.token = std::string(token.substr(7));
    parts.pass = std::string(cookie_of(request, kPassCookie));
    const std::string target(request.target());
    const auto question = target.find('?');
    if (!decode_url(std::string_view(target).substr(0, question), parts.path) || !parts.path.starts_with('/')) {
      return false;
    }
    if (question == std::string::npos) return true;
    for (std::string_view left = std::string_view(target).substr(question + 1); !left.empty();) {
      const std::string_view word = left.substr(0, left.find('&'));
      left.remove_prefix(std::min(left.size(), word.size() + 1));
      const auto equals = word.find('=');
      std::string name;
      std::string value;
      if (!decode_url(word.substr(0, equals), name)) return false;
      if (equals != word.npos && !decode_url(word.substr(equals + 1), value)) return false;
      parts.query[name] = value;
    }
    return true;
  }

  HttpReply answer(const Request& request) {
    const auto verb = request.method();
    if (verb != http::verb::get && verb != http::verb::head && verb != http::verb::post) {
      return problem_reply(405, "only GET, HEAD and POST");
    }
    if (const auto refusal = why_refused(request, verb == http::verb::post)) return problem_reply(403, *refusal);
    HttpRequest parts;
    if (!take_apart(request, parts)) return problem_reply(400, "the address makes no sense");
    try {
      return handler_.answer(parts);
    } catch (const InvalidArgument& problem) {
      return problem_reply(400, problem.what());
    } catch (const Unauthenticated& problem) {
      return problem_reply(403, problem.what());
    } catch (const std::exception& problem) {
      return problem_reply(500, problem.what());
    }
  }

  template <typename Stream>
  awaitable<void> send(Client& client, Stream& stream, const Request& request, const HttpReply& reply, bool keep) {
    Response response(static_cast<http::status>(reply.status), request.version() == 10 ? 10 : 11);
    response.set(http::field::content_type, reply.type);
    response.set("Content-Security-Policy", kPolicy);
    response.set("X-Content-Type-Options", "nosniff");
    response.set("X-Frame-Options", "DENY");
    response.set("Referrer-Policy", "no-referrer");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
    response.set("Cross-Origin-Opener-Policy", "same-origin");
    response.set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : reply.headers) response.set(name, value);
    response.keep_alive(keep);
    if (request.method() != http::verb::head) response.body() = reply.body;
    response.prepare_payload();
    if (request.method() == http::verb::head) response.content_length(reply.body.size());
    const auto transfer = static_cast<std::int64_t>(static_cast<double>(reply.body.size()) / kSlowestReader);
    client.stream.expires_after(options_.request_within + std::chrono::seconds(transfer));
    if (request.method() == http::verb::head) {
      http::response_serializer<http::string_body> serializer(response);
      co_await http::async_write_header(stream, serializer, use_awaitable);
    } else {
      co_await http::async_write(stream, response, use_awaitable);
    }
  }

  template <typename Stream>
  awaitable<void> feed(Client& client, Stream& stream, const Request& request) {
    HttpRequest parts;
    std::unique_ptr<HttpFeed> feed;
    std::optional<HttpReply> refusal;
    try {
      if (take_apart(request, parts)) feed = handler_.feed(parts);
      if (!feed) refusal = problem_reply(404, "there is no feed here");
    } catch (const Unauthenticated& problem) {
      refusal = problem_reply(403, problem.what());
    } catch (const std::exception& problem) {
      refusal = problem_reply(400, problem.what());
    }
    if (refusal) {
      co_await send(client, stream, request, *refusal, false);
      co_return;
    }
    client.stream.expires_never();  // the WebSocket has its own limits
    websocket::stream<Stream&> socket(stream);
    socket.set_option(websocket::stream_base::timeout{
        .handshake_timeout = options_.request_within, .idle_timeout = 30s, .keep_alive_pings = true});
    socket.read_message_max(kLargestWord);
    co_await socket.async_accept(request, use_awaitable);
    socket.text(true);
    asio::steady_timer timer(context_);
    bool open = true;
    bool reader_gone = false;
    asio::co_spawn(context_, hear(socket, open, timer),
                   [&](const std::exception_ptr&) { reader_gone = true, open = false, timer.cancel(); });
    std::exception_ptr failure;
    try {
      while (open) {
        if (const std::string news = feed->next(); !news.empty()) {
          co_await socket.async_write(asio::buffer(news), use_awaitable);
        }
        timer.expires_after(options_.feed_every);
        boost::system::error_code cancelled;
        co_await timer.async_wait(asio::redirect_error(use_awaitable, cancelled));
      }
    } catch (...) {
      failure = std::current_exception();
    }
    client.stream.close();  // ends the reader, which uses what is on this frame
    while (!reader_gone) {
      timer.expires_after(10ms);
      boost::system::error_code cancelled;
      co_await timer.async_wait(asio::redirect_error(use_awaitable, cancelled));
    }
    if (failure) std::rethrow_exception(failure);
  }

  /// Reads what the browser says, which is nothing but that it is still there.
  template <typename Socket>
  static awaitable<void> hear(Socket& socket, bool& open, asio::steady_timer& timer) {
    beast::flat_buffer heard;
    while (open) {
      co_await socket.async_read(heard, use_awaitable);
      heard.clear();
    }
    timer.cancel();
  }

  const HttpServerOptions options_;
  HttpHandler& handler_;
  std::shared_ptr<asio::ssl::context> tls_;  // null: http
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  std::string host_;
  std::uint16_t port_ = 0;
  Clients clients_;  // the oldest first; used by the thread only
  std::atomic<std::size_t> open_ = 0;
  std::jthread thread_;
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->port(); }
std::string HttpServer::url() const { return impl_->url(); }
std::size_t HttpServer::connections() const { return impl_->connections(); }

}  // namespace trireme::net
