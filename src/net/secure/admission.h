#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "base/mutex.h"

namespace trireme::net {

struct AdmissionLimits {
  std::size_t places = 256;                      ///< connections that may be in their handshake at the same time
  std::chrono::milliseconds idle_after = 500ms;  ///< without progress for this long, one makes way for another
};

/// A connection that has not proven the secret yet.
struct Unproven {
  std::string from;  ///< who is behind it: an address
  Deadline::Clock::time_point progress;
};

/// Returns which of `all` makes way for another connection: the one without progress for longest, of the address that
/// holds the most places. nullopt if none of them is idle. An address that holds more than half of all places counts as
/// idle after a quarter of the time: one stranger with many sockets cannot keep the others waiting for long.
std::optional<std::size_t> choose_idle(const std::vector<Unproven>& all, const AdmissionLimits& limits,
                                       Deadline::Clock::time_point now);

/// The places for connections that have not proven the secret yet. Thread-safe. Shared with the handshakes, which may
/// outlast the listener that began them.
class Admission {
 public:
  /// One connection's place, given back by the destructor.
  class Place {
   public:
    Place(std::shared_ptr<Admission> admission, std::string from);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    /// What ends the connection when it has to make way; may be called on any thread.
    void on_eviction(std::function<void()> close);

    /// The peer has said something that brings the handshake forward.
    void progressed();

    /// Gives the place back: the peer has proven the secret, and makes way for nobody. Returns false if it had to
    /// before.
    bool release();

    /// Whether it had to make way.
    bool evicted() const;

   private:
    friend class Admission;
    const std::shared_ptr<Admission> admission_;
    // The rest is guarded by the admission's mutex.
    Unproven about_;
    std::function<void()> close_;  // empty: not set yet
    bool evicted_ = false;
  };

  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  /// Returns whether another connection may be accepted now. If all places are taken, an idle one makes way.
  bool make_room();

 private:
  const AdmissionLimits limits_;
  mutable Mutex mutex_;
  std::list<Place*> places_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::net
