#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "trireme/dataset.h"
#include "trireme/deadline.h"
#include "trireme/types.h"

#include "base/mutex.h"

namespace trireme::data {

/// One lane of one step: what to read next.
struct Work {
  Step step = 0;
  Lane lane = 0;
  std::vector<std::uint64_t> indices = {};
};

/// Work with its samples read.
struct Item {
  Work work;
  Batch batch;
};

/// Reads samples ahead of the training loop, on a thread of its own ("prefetch").
///
/// All members may be called from any thread; the thread that produces and reads is the prefetch thread alone.
class Prefetcher {
 public:
  /// Says what to read next; nullopt ends the stream. Runs on the prefetch thread, may wait there, and has to return
  /// (anything) soon after the token asks it to stop.
  using Producer = std::function<std::optional<Work>(std::stop_token)>;

  /// Starts reading at once, up to `depth` items ahead of next(). Throws InvalidArgument if `depth` is 0.
  Prefetcher(std::shared_ptr<const Dataset> dataset, Producer produce, std::size_t depth = 2);

  /// Stops and joins: waits for no more than the read or the producer's return in progress.
  ~Prefetcher() = default;

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next item, in the order of production; nullopt at the end, again and again.
  ///
  /// Waits until `deadline`, then throws Timeout that says what the thread is busy with; nothing is lost, one may ask
  /// again. What the producer or the dataset threw is thrown here once the items before it are taken, and at every
  /// later call: the thread has ended by then.
  std::optional<Item> next(const Deadline& deadline);

  /// Ends the thread, as the destructor does. Not from two threads at once.
  void stop();

  /// Gives the buffers of a batch back for later reads. With every batch given back, none are allocated once the
  /// largest batch was seen.
  void recycle(Batch batch);

 private:
  void run(const std::stop_token& stop);
  bool wait_for_room(const std::stop_token& stop);
  Batch begin_read(const Work& work);
  void put(Item item);
  void finish(std::exception_ptr error);
  std::string busy_with() const TRIREME_REQUIRES(mutex_);

  const std::shared_ptr<const Dataset> dataset_;
  const Producer produce_;

  mutable Mutex mutex_;
  Condition ready_;
  StoppableCondition room_;
  std::vector<Item> ring_ TRIREME_GUARDED_BY(mutex_);    ///< `depth` slots
  std::size_t oldest_ TRIREME_GUARDED_BY(mutex_) = 0;    ///< slot of the item that next() takes
  std::size_t filled_ TRIREME_GUARDED_BY(mutex_) = 0;    ///< slots in use
  std::vector<Batch> spare_ TRIREME_GUARDED_BY(mutex_);  ///< buffers given back
  bool ended_ TRIREME_GUARDED_BY(mutex_) = false;        ///< the thread puts nothing any more
  std::exception_ptr error_ TRIREME_GUARDED_BY(mutex_);  ///< why, if not by its producer's word
  bool reading_ TRIREME_GUARDED_BY(mutex_) = false;      ///< the thread is in Dataset::read, else with its producer
  Step reading_step_ TRIREME_GUARDED_BY(mutex_) = 0;
  Lane reading_lane_ TRIREME_GUARDED_BY(mutex_) = 0;

  std::jthread thread_;  ///< last: its destructor stops and joins before anything it uses goes away
};

}  // namespace trireme::data
