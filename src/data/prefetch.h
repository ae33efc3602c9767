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
  std::uint64_t epoch = 0;
};

/// Work with its samples read.
struct Item {
  Work work;
  Batch batch;
};

/// Reads samples ahead of the training loop, on a thread of its own ("prefetch").
///
/// Thread-safe, except that calls of stop() must not overlap. Only the prefetch thread produces and reads.
class Prefetcher {
 public:
  /// Returns what to read next; nullopt ends the stream. Runs on the prefetch thread and may wait there, but must
  /// return (anything) soon after the token requests a stop.
  using Producer = std::function<std::optional<Work>(std::stop_token)>;

  /// Starts reading at once, up to `depth` items ahead of next(), into memory of `allocate`, if given, which is called
  /// on the prefetch thread. Throws InvalidArgument if `depth` is 0.
  Prefetcher(std::shared_ptr<const Dataset> dataset, Producer produce, std::size_t depth = 2,
             Batch::Allocate allocate = {});

  /// Stops and joins: waits at most for the current read, or for the producer to return.
  ~Prefetcher() = default;

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Returns the next item, in the order of production; nullopt at the end, also when called again.
  ///
  /// Waits until `deadline`, then throws Timeout that says what the thread is busy with; no item is lost, and the
  /// caller may try again. An exception of the producer or the dataset is thrown here once the items before it are
  /// taken, and at every later call: the thread has ended by then.
  std::optional<Item> next(const Deadline& deadline);

  /// Ends the thread, as the destructor does. Not thread-safe.
  void stop();

  /// Returns the buffers of a batch for later reads. If every batch is recycled, nothing is allocated once the largest
  /// batch was seen.
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
  const Batch::Allocate allocate_;

  mutable Mutex mutex_;
  Condition ready_;
  StoppableCondition room_;
  std::vector<Item> ring_ TRIREME_GUARDED_BY(mutex_);    ///< `depth` slots
  std::size_t oldest_ TRIREME_GUARDED_BY(mutex_) = 0;    ///< slot of the item that next() takes
  std::size_t filled_ TRIREME_GUARDED_BY(mutex_) = 0;    ///< slots in use
  std::vector<Batch> spare_ TRIREME_GUARDED_BY(mutex_);  ///< recycled buffers
  bool ended_ TRIREME_GUARDED_BY(mutex_) = false;        ///< the thread adds no more items
  std::exception_ptr error_ TRIREME_GUARDED_BY(mutex_);  ///< why, unless the producer ended the stream
  bool reading_ TRIREME_GUARDED_BY(mutex_) = false;      ///< the thread is in Dataset::read, else in its producer
  Step reading_step_ TRIREME_GUARDED_BY(mutex_) = 0;
  Lane reading_lane_ TRIREME_GUARDED_BY(mutex_) = 0;

  std::jthread thread_;  ///< last: its destructor stops and joins before anything it uses is destroyed
};

}  // namespace trireme::data
