#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "collective/communicator.h"

namespace trireme::collective {

/// Checks that all ranks are alive while all wait for a kernel: a thread of each rank runs a barrier with the others,
/// over the native engine, ten times a second.
class Heartbeat {
 public:
  explicit Heartbeat(std::unique_ptr<Communicator> ranks);
  ~Heartbeat();

  /// Which rank was lost, or left, or was silent for longer than the communicator's deadline; and when.
  struct Failure {
    std::string reason;
    Deadline::Clock::time_point since;
  };
  std::optional<Failure> failure() const;

 private:
  void beat(const std::stop_token& stop);

  std::unique_ptr<Communicator> ranks_;
  mutable Mutex mutex_;
  std::optional<Failure> failure_ TRIREME_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace trireme::collective
