#pragma once

#include "collective/communicator.h"

namespace trireme::collective {

/// An operation on its way. Whoever owns memory that it works on declares it before this: an operation that nobody
/// waited for is aborted, with its whole group, and its end is awaited, before the memory goes.
class PendingOperation {
 public:
  PendingOperation() = default;  ///< none: it has ended

  /// Starts it. `ranks` outlives it.
  PendingOperation(Communicator& ranks, Operation operation)
      : ranks_(&ranks), handle_(ranks.start(std::move(operation))) {}

  PendingOperation(PendingOperation&& other) noexcept = default;
  PendingOperation& operator=(PendingOperation&& other) noexcept;
  ~PendingOperation();

  /// Waits for its end. Throws what went wrong in it.
  void wait() {
    if (handle_.valid()) handle_.wait();
  }

  /// Whether it has ended, well or not.
  bool poll() const { return !handle_.valid() || handle_.poll(); }

 private:
  void give_up() noexcept;

  Communicator* ranks_ = nullptr;
  Handle handle_;
};

}  // namespace trireme::collective
