#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/collective/stream.h"
#include "trireme/train/state_wire.h"

namespace trireme {

/// What a guest makes of what it is told. The functions are called on the follower's thread.
struct FollowerOptions {
  std::vector<torch::Tensor> state;                                ///< to be filled: the same as at the source
  std::size_t change_bytes = 0;                                    ///< of gradients and buffers
  std::function<void()> on_state;                                  ///< `state` has new values
  std::function<void(const StepChange&, Bytes change)> on_change;  ///< makes the same step
};

/// The guest's side of StateFeeds: keeps a copy of the job's state that follows the job. What arrives in part changes
/// nothing.
class StateFollower {
 public:
  /// From now on a thread of its own receives, until the feed ends.
  StateFollower(collective::Stream source, FollowerOptions options);
  ~StateFollower();

  /// Waits until it has caught up with the source, or does not come any nearer; false if the feed ended before.
  bool wait_until_near();

  /// Waits for the end of the feed, and stops at the deadline. How far it got; nothing if it never got a whole state.
  std::optional<Advance> finish(Deadline deadline);

  /// Ends the waits above; from any thread.
  void interrupt();

 private:
  void run();
  bool take_message();
  bool makes_no_progress(std::uint32_t behind);
  void take_state(const StateHeader& header);
  void take_change(const StateHeader& header);
  void receive(MutableBytes bytes);

  const FollowerOptions options_;
  std::unique_ptr<std::byte[]> change_;
  std::uint32_t least_behind_ = ~0u;  // messages
  int without_progress_ = 0;          // steps
  mutable std::mutex mutex_;          // guards all below but stream and thread
  std::condition_variable changed_;
  std::optional<Advance> at_;
  bool near_ = false;
  bool over_ = false;
  collective::Stream stream_;
  std::jthread thread_;  // last
};

}  // namespace trireme
