#include "collective/nccl/heartbeat.h"

#include "base/error.h"
#include "net/event_loop.h"

namespace trireme::collective {

Heartbeat::Heartbeat(std::unique_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {
  if (ranks_->size() > 1) thread_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

Heartbeat::~Heartbeat() {
  thread_.request_stop();
  ranks_->abort("the NCCL engine is gone");
}

std::optional<Heartbeat::Failure> Heartbeat::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

void Heartbeat::beat(const std::stop_token& stop) {
  net::name_thread("nccl-heartbeat");
  try {
    while (!stop.stop_requested()) {
      ranks_->run(barrier());
      sleep_for(stop, 100ms);
    }
  } catch (const Error& problem) {
    const MutexLock lock(mutex_);
    failure_ = Failure{problem.what(), Deadline::Clock::now()};
  }
}

}  // namespace trireme::collective
