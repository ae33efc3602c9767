#include "trireme/ps/server.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include <boost/asio/thread_pool.hpp>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/ps/exchange.h"
#include "trireme/ps/tables.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kSpreadFrom = 512u << 10;  // bytes from which a request is worth several threads

}  // namespace

class Server::Impl final : public net::RequestHandler {
 public:
  explicit Impl(ServerOptions options) : options_(std::move(options)) {
    if (!options_.service.pool) options_.service.pool = std::make_shared<net::BufferPool>();
    if (options_.compute_threads > 0) compute_.emplace(options_.compute_threads);
    service_.emplace(options_.service, *this);
  }

  ~Impl() override {
    service_.reset();  // no request arrives any more
    if (compute_) compute_->join();
  }

  const net::Address& address() const { return service_->address(); }

  void set_view(View view) { view_.store(view); }

  ServerStats stats() const {
    const auto tables = this->tables();
    return {.resident_bytes = resident_bytes(),
            .parameter_bytes = tables ? tables->parameter_bytes() : 0,
            .state_bytes = tables ? tables->state_bytes() : 0,
            .chunks = tables ? tables->size() : 0};
  }

  Chunk::Clocks clocks() const {
    const auto tables = this->tables();
    return tables ? tables->clocks() : Chunk::Clocks{};
  }

  void on_request(const net::SessionPtr& session, net::InFrame frame) override {
    check_view(frame.header);
    switch (frame.header.kind) {
      case kOpen:
        return open(session, frame);
      case kAssign:
        return exchange(session, std::move(frame))->assign();
      case kExchange:
        return spread(exchange(session, std::move(frame)));
      case kLeave:
        return leave(session, frame);
      case kStats:
        return session->reply(frame.header, stats());
      default:
        fail<InvalidArgument>("a parameter server does not know request kind {}", frame.header.kind);
    }
  }

  void on_disconnect(const net::SessionPtr& session, const std::string& reason) override {
    log_info("a worker's connection ended", {{"peer", session->peer()}, {"reason", reason}});
  }

 private:
  void check_view(const net::FrameHeader& header) const {
    const View ours = view_.load();
    if (ours != 0 && header.view != ours) {
      fail<StaleView>("server {} is in view {}, the request in view {}: rejoin the job", options_.rank, ours,
                      header.view);
    }
  }

  std::shared_ptr<Tables> tables() const {
    const std::lock_guard lock(mutex_);
    return tables_;
  }

  Tables& open_tables() const {
    const auto tables = this->tables();
    if (!tables) fail<InvalidArgument>("server {} has no tables yet: open them first", options_.rank);
    return *tables;  // never replaced once made
  }

  void open(const net::SessionPtr& session, const net::InFrame& frame) {
    const auto request = net::decode_body<OpenRequest>(frame.body_bytes());
    std::shared_ptr<Tables> tables;
    {
      const std::lock_guard lock(mutex_);
      if (tables_) {
        tables_->check_same(request);
      } else {
        tables_ = std::make_shared<Tables>(request);
        log_info("holds its part of the parameters", {{"tables", request.tables.size()},
                                                      {"chunks", tables_->size()},
                                                      {"bytes", tables_->parameter_bytes()},
                                                      {"rule", to_string(request.update.rule)},
                                                      {"consistency", to_string(request.consistency)}});
      }
      tables = tables_;
    }
    OpenReply reply;
    if (session->channel().shares_memory()) reply.segment = session->channel().share(tables->segment());
    session->reply(frame.header, reply);
  }

  std::shared_ptr<Exchange> exchange(const net::SessionPtr& session, net::InFrame frame) {
    auto request = net::decode_body<ExchangeRequest>(frame.body_bytes());
    if (frame.header.kind == kAssign) request.push = true;
    return std::make_shared<Exchange>(session, std::move(frame), std::move(request), open_tables(),
                                      *options_.service.pool);
  }

  /// Runs the chunks of a request here, or over the compute threads if it is large.
  void spread(const std::shared_ptr<Exchange>& exchange) {
    if (!compute_ || exchange->bytes() < kSpreadFrom) return exchange->run(0, exchange->size());
    const std::size_t tasks = std::min(exchange->size(), 4 * options_.compute_threads);
    for (std::size_t i = 0; i < tasks; ++i) {
      const std::size_t begin = exchange->size() * i / tasks;
      const std::size_t end = exchange->size() * (i + 1) / tasks;
      boost::asio::post(*compute_, [exchange, begin, end] { exchange->run_reporting(begin, end); });
    }
  }

  void leave(const net::SessionPtr& session, const net::InFrame& frame) {
    const auto request = net::decode_body<LeaveRequest>(frame.body_bytes());
    Tables& tables = open_tables();
    for (std::uint32_t i = 0; i < tables.size(); ++i) tables.chunk(i).leave(request.worker);
    session->reply(frame.header, Done{});
  }

  ServerOptions options_;
  std::atomic<View> view_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<Tables> tables_;  // guarded by mutex_; set once
  std::optional<boost::asio::thread_pool> compute_;
  std::optional<net::Service> service_;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Server::~Server() = default;

const net::Address& Server::address() const { return impl_->address(); }

void Server::set_view(View view) { impl_->set_view(view); }

ServerStats Server::stats() const { return impl_->stats(); }

Chunk::Clocks Server::clocks() const { return impl_->clocks(); }

std::size_t default_service_threads() { return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 1, 4); }

std::size_t default_compute_threads() {
  const std::size_t cores = std::thread::hardware_concurrency();
  return cores > 2 ? std::min<std::size_t>(cores / 2, 8) : 0;
}

std::uint64_t resident_bytes() {
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace trireme::ps
