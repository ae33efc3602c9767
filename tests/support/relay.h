#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/asio.h"
#include "net/event_loop.h"

namespace trireme {

/// Somebody on the way between a client and a service on loopback, who passes everything on: later, if there is a
/// `delay`, as over a long distance; and may add bytes of its own. Knows no secret.
class Relay {
 public:
  explicit Relay(const net::Address& service, std::chrono::milliseconds delay = {})
      : service_(service), delay_(delay), acceptor_(loop_.context(), {net::asio::ip::address_v4::loopback(), 0}) {
    net::asio::co_spawn(loop_.context(), accept(), net::asio::detached);
  }
  ~Relay() { loop_.stop(); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// The service's address with the relay in its place.
  net::Address address() const {
    net::Address address = service_;
    address.host = "127.0.0.1";
    address.port = acceptor_.local_endpoint().port();
    address.unix_name.clear();
    return address;
  }

  /// Adds bytes to what the client of the last connection has sent so far.
  void inject(std::string bytes) {
    net::asio::post(loop_.context(),
                    net::asio::use_future([&] { net::asio::write(*to_service_, net::asio::buffer(bytes)); }))
        .get();
  }

 private:
  using Socket = std::shared_ptr<net::tcp::socket>;

  net::awaitable<void> accept() {
    for (;;) {
      const auto client = std::make_shared<net::tcp::socket>(co_await acceptor_.async_accept(net::use_awaitable));
      to_service_ = std::make_shared<net::tcp::socket>(loop_.context());
      to_service_->connect({net::asio::ip::address_v4::loopback(), service_.port});
      net::asio::co_spawn(loop_.context(), pass(client, to_service_), net::asio::detached);
      net::asio::co_spawn(loop_.context(), pass(to_service_, client), net::asio::detached);
    }
  }

  net::awaitable<void> pass(Socket from, Socket to) {
    std::vector<char> bytes(64 * 1024);
    boost::system::error_code ended;
    for (;;) {
      const std::size_t size = co_await from->async_read_some(net::asio::buffer(bytes),
                                                              net::asio::redirect_error(net::use_awaitable, ended));
      if (ended) break;
      net::asio::steady_timer distance(loop_.context(), delay_);
      co_await distance.async_wait(net::use_awaitable);
      co_await net::asio::async_write(*to, net::asio::buffer(bytes, size),
                                      net::asio::redirect_error(net::use_awaitable, ended));
      if (ended) break;
    }
    from->close(ended);
    to->close(ended);
  }

  const net::Address service_;
  const std::chrono::milliseconds delay_;
  net::EventLoop loop_{"relay"};
  net::tcp::acceptor acceptor_;
  Socket to_service_;  // of the last connection; the loop's own
};

}  // namespace trireme
