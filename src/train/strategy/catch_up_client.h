#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/mutex.h"
#include "net/raw_stream.h"
#include "train/strategy/catch_up_protocol.h"

namespace trireme {

/// What a learner makes of what it is told. The functions are called on the catch-up client's thread.
struct CatchUpClientOptions {
  std::vector<torch::Tensor> state;                                ///< to be filled: the same as at the source
  std::size_t change_bytes = 0;                                    ///< of gradients and buffers
  std::function<void()> on_state;                                  ///< `state` has new values
  std::function<void(const StepChange&, Bytes change)> on_change;  ///< makes the same step
};

/// The learner's side of CatchUpServer: keeps a copy of the job's state that follows the job. What arrives in part
/// changes nothing.
class CatchUpClient {
 public:
  /// From now on a thread of its own receives, until the feed ends.
  CatchUpClient(net::RawStream source, CatchUpClientOptions options);
  ~CatchUpClient();

  /// Waits until it has caught up with the source, or does not come any nearer; false if the feed ended before.
  bool wait_until_near();

  /// Waits for the end of the feed, and stops at the deadline. How far it got; nothing if it never got a whole state.
  std::optional<Position> finish(Deadline deadline);

  /// Ends the waits above; from any thread.
  void interrupt();

 private:
  void run();
  bool take_message();
  bool makes_no_progress(std::uint32_t behind);
  void take_state(const CatchUpHeader& header);
  void take_change(const CatchUpHeader& header);
  void receive(MutableBytes bytes);

  const CatchUpClientOptions options_;
  std::unique_ptr<std::byte[]> change_;
  std::uint32_t least_behind_ = ~0u;  // messages
  int without_progress_ = 0;          // steps
  std::optional<Position> at_;        // the thread's own until it is joined, as those above
  mutable Mutex mutex_;
  Condition changed_;
  bool near_ TRIREME_GUARDED_BY(mutex_) = false;
  bool over_ TRIREME_GUARDED_BY(mutex_) = false;
  net::RawStream stream_;
  std::jthread thread_;  // last
};

}  // namespace trireme
