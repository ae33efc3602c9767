#pragma once

#include "collective/communicator.h"

namespace trireme::collective {

/// An operation in progress. Declare it after the memory that it works on: the destructor aborts an operation that was
/// not waited for, with its whole group, and waits for its end, before that memory is freed.
class PendingOperation {
 public:
  PendingOperation() = default;  ///< none: it has ended

  /// Starts it. `ranks` must outlive it.
  PendingOperation(Communicator& ranks, Operation operation)
      : ranks_(&ranks), handle_(ranks.start(std::move(operation))) {}

  PendingOperation(PendingOperation&& other) noexcept = default;
  PendingOperation& operator=(PendingOperation&& other) noexcept;
  ~PendingOperation();

  /// Waits until it has ended. Throws its error.
  void wait() {
    if (handle_.valid()) handle_.wait();
  }

  /// Returns whether it has ended, successfully or not.
  bool poll() const { return !handle_.valid() || handle_.poll(); }

 private:
  void give_up() noexcept;

  Communicator* ranks_ = nullptr;
  Handle handle_;
};

}  // namespace trireme::collective
