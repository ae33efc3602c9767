#include "net/http_client.h"

#include <sys/socket.h>

#include <exception>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "base/error.h"
#include "net/asio.h"

namespace trireme::net {

namespace beast = boost::beast;
namespace http = boost::beast::http;

class HttpClient::Impl {
 public:
  explicit Impl(Address server) : server_(std::move(server)) {}

  const Address& server() const { return server_; }

  HttpAnswer post(const HttpPost& post) {
    if (closed_by_server()) stream_.close();
    HttpAnswer answer;
    std::exception_ptr problem;
    stream_.expires_at(post.deadline.at());
    asio::co_spawn(context_, exchange(post, answer), [&](std::exception_ptr thrown) { problem = std::move(thrown); });
    context_.restart();
    context_.run();
    if (!problem) return answer;
    stream_.close();  // what is left of an old answer must not be taken for the next one
    rethrow(problem, post);
  }

 private:
  /// A server may end a connection that nobody used for a while. Seen before the question is sent, that is no failure.
  bool closed_by_server() {
    if (!stream_.socket().is_open()) return false;
    char byte = 0;
    const ssize_t got = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }

  awaitable<void> exchange(const HttpPost& post, HttpAnswer& answer) {
    if (!stream_.socket().is_open()) {
      tcp::resolver resolver(context_);
      const auto found = co_await resolver.async_resolve(server_.host, std::to_string(server_.port), use_awaitable);
      co_await stream_.async_connect(found, use_awaitable);
      stream_.socket().set_option(tcp::no_delay(true));
    }
    http::request<http::string_body> request(http::verb::post, post.path, 11, post.body);
    request.set(http::field::host, server_.text());
    request.set(http::field::content_type, "application/json");
    request.prepare_payload();
    co_await http::async_write(stream_, request, use_awaitable);

    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(post.largest_answer);
    co_await http::async_read(stream_, buffer, parser, use_awaitable);
    answer = {.status = parser.get().result_int(), .body = std::move(parser.get().body())};
    if (!parser.get().keep_alive()) stream_.close();
  }

  [[noreturn]] void rethrow(const std::exception_ptr& problem, const HttpPost& post) {
    try {
      std::rethrow_exception(problem);
    } catch (const boost::system::system_error& error) {
      const auto code = error.code();
      const std::string who = fmt::format("http://{}", server_.text());
      if (code == beast::error::timeout) {
        fail<Timeout>("{} did not answer {} within {} ms", who, post.path, post.deadline.allowed().count());
      }
      if (code == http::error::body_limit) {
        fail<Corrupt>("{} answers {} with more than {} bytes", who, post.path, post.largest_answer);
      }
      if (code == http::error::end_of_stream || code == http::error::partial_message) {
        fail<PeerLost>("{} closed the connection in the middle of its answer to {}", who, post.path);
      }
      if (code.category() == http::make_error_code(http::error::bad_version).category()) {
        fail<Corrupt>("{} does not answer {} in HTTP: {}", who, post.path, code.message());
      }
      fail<PeerLost>("{} cannot be reached: {}", who, code.message());
    }
  }

  const Address server_;
  asio::io_context context_{1};
  beast::tcp_stream stream_{context_};
};

HttpClient::HttpClient(Address server) : impl_(std::make_unique<Impl>(std::move(server))) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

HttpAnswer HttpClient::post(const HttpPost& post) { return impl_->post(post); }
const Address& HttpClient::server() const { return impl_->server(); }

}  // namespace trireme::net
