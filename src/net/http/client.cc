#include "net/http/client.h"

#include <sys/socket.h>

#include <exception>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "base/error.h"
#include "net/asio.h"

namespace trireme::net {

namespace beast = boost::beast;
namespace http = boost::beast::http;

class HttpClient::Impl {
 public:
  Impl(Address server, const std::optional<HttpTls>& tls) : server_(std::move(server)) {
    if (tls) load(*tls);
  }

  std::string url() const { return fmt::format("{}://{}", tls_ ? "https" : "http", server_.text()); }

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

  void load(const HttpTls& files) {
    tls_ = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(tls_->native_handle(), TLS1_2_VERSION);
    tls_->set_verify_mode(asio::ssl::verify_peer);
    tls_->set_verify_callback(asio::ssl::host_name_verification(server_.host));
    const auto use = [](const std::string& file, const auto& call) {
      try {
        if (!file.empty()) call();
      } catch (const boost::system::system_error& problem) {
        fail<InvalidArgument>("cannot use {} for TLS: {}", file, problem.code().message());
      }
    };
    if (files.ca_file.empty()) tls_->set_default_verify_paths();
    use(files.ca_file, [&] { tls_->load_verify_file(files.ca_file); });
    use(files.certificate_file, [&] { tls_->use_certificate_chain_file(files.certificate_file); });
    use(files.key_file, [&] { tls_->use_private_key_file(files.key_file, asio::ssl::context::pem); });
  }

  awaitable<void> connect() {
    tcp::resolver resolver(context_);
    const auto found = co_await resolver.async_resolve(server_.host, std::to_string(server_.port), use_awaitable);
    co_await stream_.async_connect(found, use_awaitable);
    stream_.socket().set_option(tcp::no_delay(true));
    if (!tls_) co_return;
    secure_.emplace(stream_, *tls_);
    boost::system::error_code is_name;  // only names are sent ahead, not numbers
    asio::ip::make_address(server_.host, is_name);
    if (is_name) SSL_set_tlsext_host_name(secure_->native_handle(), server_.host.c_str());
    co_await secure_->async_handshake(asio::ssl::stream_base::client, use_awaitable);
  }

  awaitable<void> exchange(const HttpPost& post, HttpAnswer& answer) {
    if (!stream_.socket().is_open()) co_await connect();
    if (tls_) {
      co_await exchange(*secure_, post, answer);
    } else {
      co_await exchange(stream_, post, answer);
    }
  }

  template <typename Stream>
  awaitable<void> exchange(Stream& stream, const HttpPost& post, HttpAnswer& answer) {
    http::request<http::string_body> request(http::verb::post, post.path, 11, post.body);
    request.set(http::field::host, server_.text());
    request.set(http::field::content_type, "application/json");
    if (!post.authorization.empty()) request.set(http::field::authorization, post.authorization);
    request.prepare_payload();
    co_await http::async_write(stream, request, use_awaitable);

    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(post.largest_answer);
    co_await http::async_read(stream, buffer, parser, use_awaitable);
    answer = {.status = parser.get().result_int(), .body = std::move(parser.get().body())};
    if (!parser.get().keep_alive()) stream_.close();
  }

  [[noreturn]] void rethrow(const std::exception_ptr& problem, const HttpPost& post) {
    try {
      std::rethrow_exception(problem);
    } catch (const boost::system::system_error& error) {
      const auto code = error.code();
      const std::string who = url();
      if (code == beast::error::timeout) {
        fail<Timeout>("{} did not answer {} within {} ms", who, post.path, post.deadline.allowed().count());
      }
      if (code == http::error::body_limit) {
        fail<Corrupt>("{} answers {} with more than {} bytes", who, post.path, post.largest_answer);
      }
      if (code.category() == asio::error::get_ssl_category()) {
        fail<Unauthenticated>("there is no trust between this process and {}: {}; check the certificates of both", who,
                              code.message());
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
  std::unique_ptr<asio::ssl::context> tls_;                      // null: plain HTTP
  std::optional<asio::ssl::stream<beast::tcp_stream&>> secure_;  // of the current connection
};

HttpClient::HttpClient(Address server, const std::optional<HttpTls>& tls)
    : impl_(std::make_unique<Impl>(std::move(server), tls)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

HttpAnswer HttpClient::post(const HttpPost& post) { return impl_->post(post); }
std::string HttpClient::url() const { return impl_->url(); }

}  // namespace trireme::net
