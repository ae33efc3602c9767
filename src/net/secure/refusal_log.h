#pragma once

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "net/asio.h"

namespace trireme::net {

/// Logs refused connections: the first one with its reason, further ones as a count per second, so that a stranger
/// cannot fill a disk. Thread-safe. Its loop must be stopped before it goes.
class RefusalLog {
 public:
  explicit RefusalLog(asio::io_context& context) : second_(context) {}
  ~RefusalLog();  ///< logs what was counted last

  void add(const std::string& peer, const std::string& reason);

 private:
  void begin_second() TRIREME_REQUIRES(mutex_);
  bool log_count() TRIREME_REQUIRES(mutex_);  ///< false if there was nothing to log

  Mutex mutex_;
  asio::steady_timer second_ TRIREME_GUARDED_BY(mutex_);
  bool counting_ TRIREME_GUARDED_BY(mutex_) = false;
  std::uint64_t count_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::string last_peer_ TRIREME_GUARDED_BY(mutex_);
  std::string last_reason_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::net
