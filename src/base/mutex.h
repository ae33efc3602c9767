#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#include "trireme/deadline.h"

// What a lock guards is written in the code, and Clang checks it (tools/check_thread_safety). For GCC these are empty.
#ifdef __clang__
#define TRIREME_THREAD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define TRIREME_THREAD_ANNOTATION(...)
#endif

/// Of a member: read and written only by who holds this mutex.
#define TRIREME_GUARDED_BY(mutex) TRIREME_THREAD_ANNOTATION(guarded_by(mutex))
/// Of a function, or of a lambda after its parameters: the caller holds these mutexes, before and after.
#define TRIREME_REQUIRES(...) TRIREME_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// Of a function that locks these mutexes itself: the caller must not hold them.
#define TRIREME_EXCLUDES(...) TRIREME_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// Of a function: returns with these mutexes locked; with them unlocked; with them locked if the result is `result`.
#define TRIREME_ACQUIRE(...) TRIREME_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRIREME_RELEASE(...) TRIREME_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TRIREME_TRY_ACQUIRE(...) TRIREME_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
/// Of a class: a mutex; an object that holds one while it lives.
#define TRIREME_CAPABILITY(name) TRIREME_THREAD_ANNOTATION(capability(name))
#define TRIREME_SCOPED_CAPABILITY TRIREME_THREAD_ANNOTATION(scoped_lockable)

namespace trireme {

/// std::mutex, of which Clang knows who holds it. Not recursive. Usually locked by a MutexLock.
class TRIREME_CAPABILITY("mutex") Mutex {
 public:
  void lock() TRIREME_ACQUIRE() { mutex_.lock(); }
  void unlock() TRIREME_RELEASE() { mutex_.unlock(); }

  /// Does not block; returns whether this thread now holds it.
  bool try_lock() TRIREME_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  template <class Variable>
  friend class BasicCondition;

  std::mutex mutex_;
};

/// As Mutex, but the thread that holds it may lock it again, and unlocks it as often.
class TRIREME_CAPABILITY("mutex") RecursiveMutex {
 public:
  void lock() TRIREME_ACQUIRE() { mutex_.lock(); }
  void unlock() TRIREME_RELEASE() { mutex_.unlock(); }
  bool try_lock() TRIREME_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::recursive_mutex mutex_;
};

/// Holds a mutex, of either kind, from its construction to the end of the scope: const MutexLock lock(mutex_);
/// One thread uses it; unlock() and lock() let go of the mutex for a while, in turn.
template <class AnyMutex>
class TRIREME_SCOPED_CAPABILITY MutexLock {
 public:
  /// Blocks until the mutex is free.
  explicit MutexLock(AnyMutex& mutex) TRIREME_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }

  /// Takes over a mutex that this thread holds already: after try_lock().
  MutexLock(AnyMutex& mutex, std::adopt_lock_t) TRIREME_REQUIRES(mutex) : mutex_(mutex) {}

  ~MutexLock() TRIREME_RELEASE() {
    if (held_) mutex_.unlock();
  }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() TRIREME_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

  void unlock() TRIREME_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  AnyMutex& mutex_;
  bool held_ = true;
};

/// What Condition and StoppableCondition have in common. Thread-safe.
template <class Variable>
class BasicCondition {
 public:
  /// Wakes one, or all, who wait now. With or without the mutex; what is waited for changes only with it.
  void notify_one() noexcept { variable_.notify_one(); }
  void notify_all() noexcept { variable_.notify_all(); }

  /// Blocks until `predicate()`, letting go of `mutex` meanwhile. The predicate is called with `mutex`; what it reads
  /// may change only with it, followed by a notification.
  template <class Predicate>
  void wait(Mutex& mutex, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    variable_.wait(lock, std::move(predicate));
  }

  /// As above, but no longer than `deadline`; returns what the predicate said last.
  template <class Predicate>
  bool wait(Mutex& mutex, Deadline deadline, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    return variable_.wait_until(lock, deadline.at(), std::move(predicate));
  }

 protected:
  /// The caller's mutex in the form that std's condition variables want, given back as it was.
  class Adopted : public std::unique_lock<std::mutex> {
   public:
    explicit Adopted(Mutex& mutex) : std::unique_lock<std::mutex>(mutex.mutex_, std::adopt_lock) {}
    ~Adopted() { release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
  };

  Variable variable_;
};

/// Threads that hold a Mutex wait on it until something is true, or until a deadline.
using Condition = BasicCondition<std::condition_variable>;

/// A Condition whose waits can also be ended by a stop token; each wait costs a little more.
class StoppableCondition : public BasicCondition<std::condition_variable_any> {
 public:
  using BasicCondition::wait;

  /// Blocks until `predicate()`, or until `stop` is requested; returns what the predicate said last.
  template <class Predicate>
  bool wait(Mutex& mutex, std::stop_token stop, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    return variable_.wait(lock, std::move(stop), std::move(predicate));
  }

  /// As above, but no longer than `deadline`.
  template <class Predicate>
  bool wait(Mutex& mutex, std::stop_token stop, Deadline deadline, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    return variable_.wait_until(lock, std::move(stop), deadline.at(), std::move(predicate));
  }
};

/// Sleeps until `time`, or until `stop` is requested; returns whether it was.
inline bool sleep_until(std::stop_token stop, Deadline::Clock::time_point time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_until(lock, stop, time, [] { return false; });
  return stop.stop_requested();
}

/// As above, for `time`.
inline bool sleep_for(std::stop_token stop, Deadline::Clock::duration time) {
  return sleep_until(std::move(stop), Deadline::Clock::now() + time);
}

}  // namespace trireme
