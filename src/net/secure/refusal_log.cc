#include "net/secure/refusal_log.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace trireme::net {

RefusalLog::~RefusalLog() {
  const MutexLock lock(mutex_);
  log_count();
}

void RefusalLog::add(const std::string& peer, const std::string& reason) {
  const MutexLock lock(mutex_);
  if (counting_) {
    ++count_;
    last_peer_ = peer;
    last_reason_ = reason;
    return;
  }
  log_warn("connection_refused", "refused a connection", {{"peer", peer}, {"reason", reason}});
  begin_second();
}

void RefusalLog::begin_second() {
  counting_ = true;
  second_.expires_after(std::chrono::seconds(1));
  second_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    const MutexLock lock(mutex_);
    counting_ = false;
    if (log_count()) begin_second();
  });
}

bool RefusalLog::log_count() {
  const std::uint64_t count = std::exchange(count_, 0);
  if (count == 0) return false;
  log_warn("connections_refused", "refused more connections within a second",
           {{"count", count}, {"last_peer", last_peer_}, {"last_reason", last_reason_}});
  return true;
}

}  // namespace trireme::net
