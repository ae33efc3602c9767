#include "data/prefetch.h"

#include <pthread.h>

#include <utility>

#include "base/error.h"

namespace trireme::data {

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, Producer produce, std::size_t depth,
                       Batch::Allocate allocate)
    : dataset_(std::move(dataset)), produce_(std::move(produce)), allocate_(std::move(allocate)) {
  if (depth == 0) fail<InvalidArgument>("a prefetch depth of 0 reads nothing ahead: set it to 1 or more");
  ring_.resize(depth);
  spare_.reserve(depth + 2);  // the most that can exist: in the ring, with the thread, with the caller
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::optional<Item> Prefetcher::next(const Deadline& deadline) {
  MutexLock lock(mutex_);
  if (!ready_.wait(mutex_, deadline, [&]() TRIREME_REQUIRES(mutex_) { return filled_ > 0 || ended_; })) {
    fail<Timeout>("no batch within {} ms: the prefetch thread {}", deadline.allowed().count(), busy_with());
  }
  if (filled_ == 0) {
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }
  Item item = std::move(ring_[oldest_]);
  oldest_ = (oldest_ + 1) % ring_.size();
  --filled_;
  lock.unlock();
  room_.notify_one();
  return item;
}

void Prefetcher::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::recycle(Batch batch) {
  const MutexLock lock(mutex_);
  if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(batch));
}

void Prefetcher::run(const std::stop_token& stop) {
  ::pthread_setname_np(::pthread_self(), "prefetch");
  try {
    while (wait_for_room(stop)) {
      std::optional<Work> work = produce_(stop);
      if (!work || stop.stop_requested()) break;
      Batch batch = begin_read(*work);
      dataset_->read(work->indices, batch, work->epoch);
      put({std::move(*work), std::move(batch)});
    }
    finish(nullptr);
  } catch (...) {
    finish(std::current_exception());
  }
}

/// Returns false if the thread must stop.
bool Prefetcher::wait_for_room(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  return room_.wait(mutex_, stop, [&]() TRIREME_REQUIRES(mutex_) { return filled_ < ring_.size(); }) &&
         !stop.stop_requested();
}

/// Records what is being read, for messages, and returns buffers for it.
Batch Prefetcher::begin_read(const Work& work) {
  const MutexLock lock(mutex_);
  reading_ = true;
  reading_step_ = work.step;
  reading_lane_ = work.lane;
  if (spare_.empty()) return Batch(allocate_);
  Batch batch = std::move(spare_.back());
  spare_.pop_back();
  return batch;
}

void Prefetcher::put(Item item) {
  {
    const MutexLock lock(mutex_);
    reading_ = false;
    ring_[(oldest_ + filled_) % ring_.size()] = std::move(item);
    ++filled_;
  }
  ready_.notify_one();
}

void Prefetcher::finish(std::exception_ptr error) {
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    error_ = std::move(error);
  }
  ready_.notify_all();
}

/// Call it only while the ring is empty, so that the thread is not waiting for room.
std::string Prefetcher::busy_with() const {
  if (!reading_) return "still waits to be told what to read next";
  return fmt::format(
      "is still reading step {}, lane {} from {}; if the storage is slow, allow more time or read further ahead",
      reading_step_, reading_lane_, dataset_->describe());
}

}  // namespace trireme::data
