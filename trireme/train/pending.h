#pragma once

#include "trireme/collective/communicator.h"

namespace trireme {

/// An operation on its way. Whoever owns memory that it works on declares it before this: an operation that nobody
/// waited for is aborted, with its whole group, and its end is awaited, before the memory goes.
class Pending {
 public:
  Pending() = default;  ///< none: it has ended

  /// Starts it. `ranks` outlives it.
  Pending(collective::Communicator& ranks, collective::Operation operation)
      : ranks_(&ranks), handle_(ranks.start(std::move(operation))) {}

  Pending(Pending&& other) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();

  /// Waits for its end. Throws what went wrong in it.
  void wait() {
    if (handle_.valid()) handle_.wait();
  }

  /// Whether it has ended, well or not.
  bool poll() const { return !handle_.valid() || handle_.poll(); }

 private:
  void give_up() noexcept;

  collective::Communicator* ranks_ = nullptr;
  collective::Handle handle_;
};

}  // namespace trireme
