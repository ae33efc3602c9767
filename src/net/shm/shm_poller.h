#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/shm/shm_channel.h"

namespace trireme::net {

/// The thread of a service that moves the frames of all its shared-memory channels: it spins while they are busy and
/// sleeps on one doorbell when they are not.
class ShmPoller {
 public:
  explicit ShmPoller(const std::string& name);
  ~ShmPoller();

  std::shared_ptr<Doorbell> doorbell() const { return doorbell_; }

  void add(std::shared_ptr<ShmChannel> channel);

 private:
  void run(const std::stop_token& stop);
  void take_new_channels();
  void check_sockets();
  void sleep();

  std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  Mutex mutex_;
  std::vector<std::shared_ptr<ShmChannel>> added_ TRIREME_GUARDED_BY(mutex_);
  std::atomic<bool> some_added_{false};
  std::vector<std::shared_ptr<ShmChannel>> channels_;  // the thread's own
  std::uint64_t turns_ = 0;                            // the thread's own
  std::jthread thread_;
};

}  // namespace trireme::net
