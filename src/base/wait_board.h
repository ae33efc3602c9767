#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/types.h"

#include "base/mutex.h"

namespace trireme {

/// What a process waits in, and for whom: ranks of the view.
struct AwaitedWork {
  std::string what = {};           ///< "all_reduce sum of 61706 f32 (bucket 2)"
  std::vector<Rank> workers = {};  ///< that have not begun it, as far as this process knows
  std::vector<Rank> servers = {};  ///< that have not answered
  double for_s = 0;
};

/// What this process waits in, for those who ask why nothing moves. Thread-safe.
class WaitBoard {
 public:
  class Entry;

  /// Returns what has lasted longest; nullopt if there is nothing.
  std::optional<AwaitedWork> longest() const;

 private:
  mutable Mutex mutex_;
  std::vector<const Entry*> entries_ TRIREME_GUARDED_BY(mutex_);  // the oldest first
};

/// Stands on a board while it lives. `describe` is called by whoever asks, from any thread, with the board locked: it
/// must not wait, nor make or end an entry.
class WaitBoard::Entry {
 public:
  using Describe = std::function<AwaitedWork()>;

  /// Null: there is no board.
  Entry(WaitBoard* board, Describe describe);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  friend class WaitBoard;
  WaitBoard* board_;
  Describe describe_;
  Deadline::Clock::time_point began_;
};

}  // namespace trireme
