#include "collective/pending_operation.h"

#include <utility>

#include "base/log.h"

namespace trireme::collective {

PendingOperation::~PendingOperation() { give_up(); }

PendingOperation& PendingOperation::operator=(PendingOperation&& other) noexcept {
  if (this == &other) return *this;
  give_up();
  ranks_ = std::exchange(other.ranks_, nullptr);
  handle_ = std::exchange(other.handle_, {});
  return *this;
}

void PendingOperation::give_up() noexcept {
  if (poll()) return;
  try {
    ranks_->abort("what this rank had begun was given up");
    handle_.wait();
  } catch (const std::exception& problem) {  // expected
    log_debug("operation_abandoned", "an operation was abandoned", {{"reason", problem.what()}});
  }
}

}  // namespace trireme::collective
