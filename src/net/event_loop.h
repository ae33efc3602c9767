#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/asio.h"

namespace trireme::net {

/// The threads that move bytes over sockets: an io_context and the named threads that run it. Objects that use a loop
/// must be gone, or closed, before it is.
class EventLoop {
 public:
  explicit EventLoop(const std::string& name, std::size_t threads = 1);

  ~EventLoop() { stop(); }

  /// Ends the threads and joins them, then runs what is ready (such as the ends of closed channels) on the calling
  /// thread; nothing runs afterwards. Once: a second call does nothing.
  void stop();

  asio::io_context& context() { return *context_; }

  /// For objects with sockets that may be released after the loop: sockets must not outlive their context.
  std::shared_ptr<asio::io_context> shared_context() { return context_; }

 private:
  void run();

  std::shared_ptr<asio::io_context> context_ = std::make_shared<asio::io_context>();
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::jthread> threads_;
  bool stopped_ = false;
};

/// Names the calling thread for debuggers and `top -H` (15 characters at most are kept).
void name_thread(const std::string& name);

}  // namespace trireme::net
