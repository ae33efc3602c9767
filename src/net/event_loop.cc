#include "net/event_loop.h"

#include <pthread.h>

#include <utility>

#include "base/error.h"

namespace trireme::net {

EventLoop::EventLoop(const std::string& name, std::size_t threads) : work_(asio::make_work_guard(*context_)) {
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, name] {
      name_thread(name);
      run();
    });
  }
}

void EventLoop::run() {
  try {
    context_->run();
  } catch (const std::exception& problem) {
    // Every handler deals with its own failures; one that got here is a bug, and a silent loop would be a hang.
    TRIREME_CHECK(false, "an exception left a network handler: {}", problem.what());
  }
}

void EventLoop::stop() {
  if (std::exchange(stopped_, true)) return;  // what became ready meanwhile belongs to objects that are gone
  context_->stop();
  threads_.clear();
  work_.reset();
  context_->restart();
  context_->poll();
}

void name_thread(const std::string& name) { ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str()); }

}  // namespace trireme::net
