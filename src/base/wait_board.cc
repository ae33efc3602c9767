#include "base/wait_board.h"

#include <utility>

namespace trireme {

WaitBoard::Entry::Entry(WaitBoard* board, Describe describe) : board_(board), describe_(std::move(describe)) {
  if (board_ == nullptr) return;
  began_ = Deadline::Clock::now();
  const MutexLock lock(board_->mutex_);
  board_->entries_.push_back(this);
}

WaitBoard::Entry::~Entry() {
  if (board_ == nullptr) return;
  const MutexLock lock(board_->mutex_);
  std::erase(board_->entries_, this);
}

std::optional<AwaitedWork> WaitBoard::longest() const {
  const MutexLock lock(mutex_);
  if (entries_.empty()) return std::nullopt;
  const Entry& oldest = *entries_.front();
  AwaitedWork work = oldest.describe_();
  work.for_s = std::chrono::duration<double>(Deadline::Clock::now() - oldest.began_).count();
  return work;
}

}  // namespace trireme
