#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/membership.h"
#include "ps/server.h"

namespace trireme::ps {

/// A parameter server with its membership, in this process. Lives as long as its view.
class ThreadServer {
 public:
  ThreadServer(const net::Address& master, std::uint32_t slot, const std::string& secret)
      : server_({.service = {.listener = {.name = "server", .secret = secret}}, .rank = slot}) {
    thread_ = std::jthread([this, master, slot, secret](const std::stop_token& stop) {
      cluster::Membership member(loop_,
                                 {.role = cluster::Role::kServer,
                                  .slot = slot,
                                  .master = master,
                                  .own_address = server_.address(),
                                  .secret = secret},
                                 {.shards = [this] {
                                   const ServerStatus status = server_.status();
                                   return cluster::ShardReports{status.view, status.replicas};
                                 }});
      const cluster::ViewInfo view = member.view();
      server_.enter(view, view.servers[member.rank()].id);
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait(lock, stop, [] { return false; });
    });
  }

 private:
  net::EventLoop loop_{"server-net"};
  Server server_;
  std::jthread thread_;  // last: it uses the others; its end is the end of the membership, without a word
};

}  // namespace trireme::ps
