#pragma once

#include <string>
#include <thread>
#include <vector>

#include "trireme/net/asio.h"

namespace trireme::net {

/// The threads that move bytes over sockets: an io_context and the named threads that run it. Objects that use a loop
/// must be gone, or closed, before it is.
class Loop {
 public:
  explicit Loop(const std::string& name, std::size_t threads = 1);

  ~Loop() { stop(); }

  /// Ends the threads and joins them; handlers that have not run are dropped.
  void stop();

  asio::io_context& context() { return context_; }

 private:
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::jthread> threads_;
};

/// Names the calling thread for debuggers and `top -H` (15 characters at most are kept).
void name_thread(const std::string& name);

}  // namespace trireme::net
