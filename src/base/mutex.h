#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#include "trireme/deadline.h"

// The code states what each lock guards, and Clang checks it (tools/check_thread_safety). For GCC these are empty.
#ifdef __clang__
#define TRIREME_THREAD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define TRIREME_THREAD_ANNOTATION(...)
#endif

/// On a member: only the holder of this mutex reads and writes it.
#define TRIREME_GUARDED_BY(mutex) TRIREME_THREAD_ANNOTATION(guarded_by(mutex))
/// On a function, or on a lambda after its parameters: the caller holds these mutexes before and after the call.
#define TRIREME_REQUIRES(...) TRIREME_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// On a function that locks these mutexes itself: the caller must not hold them.
#define TRIREME_EXCLUDES(...) TRIREME_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// On a function: returns with these mutexes locked; with them unlocked; with them locked if the result is `result`.
#define TRIREME_ACQUIRE(...) TRIREME_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRIREME_RELEASE(...) TRIREME_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TRIREME_TRY_ACQUIRE(...) TRIREME_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
/// On a class: a mutex; an object that holds one while it lives.
#define TRIREME_CAPABILITY(name) TRIREME_THREAD_ANNOTATION(capability(name))
#define TRIREME_SCOPED_CAPABILITY TRIREME_THREAD_ANNOTATION(scoped_lockable)

namespace trireme {

/// std::mutex with annotations, so that Clang knows who holds it. Not recursive. Usually locked by a MutexLock.
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

/// Like Mutex, but the thread that holds it may lock it again, and must unlock it as often.
class TRIREME_CAPABILITY("mutex") RecursiveMutex {
 public:
  void lock() TRIREME_ACQUIRE() { mutex_.lock(); }
  void unlock() TRIREME_RELEASE() { mutex_.unlock(); }
  bool try_lock() TRIREME_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::recursive_mutex mutex_;
};

/// Holds a mutex of either kind from its construction to the end of the scope: `const MutexLock lock(mutex_);`. Not
/// thread-safe. unlock() and then lock() release the mutex for a while.
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

/// What Condition and StoppableCondition share. Thread-safe.
template <class Variable>
class BasicCondition {
 public:
  /// Wake one waiting thread, or all. The caller need not hold the mutex, but must have held it to change the
  /// condition.
  void notify_one() noexcept { variable_.notify_one(); }
  void notify_all() noexcept { variable_.notify_all(); }

  /// Blocks until `predicate()` is true; releases `mutex` while it waits. The predicate runs with `mutex` held; what it
  /// reads may change only under `mutex`, followed by a notification.
  template <class Predicate>
  void wait(Mutex& mutex, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    variable_.wait(lock, std::move(predicate));
  }

  /// Same, but waits no longer than `deadline`; returns the last result of the predicate.
  template <class Predicate>
  bool wait(Mutex& mutex, Deadline deadline, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    return variable_.wait_until(lock, deadline.at(), std::move(predicate));
  }

 protected:
  /// The caller's mutex in the form that std's condition variables want; still locked afterwards.
  class Adopted : public std::unique_lock<std::mutex> {
   public:
    explicit Adopted(Mutex& mutex) : std::unique_lock<std::mutex>(mutex.mutex_, std::adopt_lock) {}
    ~Adopted() { release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
  };

  Variable variable_;
};

/// What threads that hold a Mutex wait on until a predicate is true or a deadline passes.
using Condition = BasicCondition<std::condition_variable>;

/// A Condition whose waits a stop token can end; each wait costs a little more.
class StoppableCondition : public BasicCondition<std::condition_variable_any> {
 public:
  using BasicCondition::wait;

  /// Blocks until `predicate()` is true or `stop` is requested; returns the last result of the predicate.
  template <class Predicate>
  bool wait(Mutex& mutex, std::stop_token stop, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    return variable_.wait(lock, std::move(stop), std::move(predicate));
  }

  /// Same, but waits no longer than `deadline`.
  template <class Predicate>
  bool wait(Mutex& mutex, std::stop_token stop, Deadline deadline, Predicate predicate) TRIREME_REQUIRES(mutex) {
    Adopted lock(mutex);
    return variable_.wait_until(lock, std::move(stop), deadline.at(), std::move(predicate));
  }
};

/// Sleeps until `time` or until `stop` is requested; returns whether it was requested.
inline bool sleep_until(std::stop_token stop, Deadline::Clock::time_point time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_until(lock, stop, time, [] { return false; });
  return stop.stop_requested();
}

/// Same, for a duration of `time`.
inline bool sleep_for(std::stop_token stop, Deadline::Clock::duration time) {
  return sleep_until(std::move(stop), Deadline::Clock::now() + time);
}

}  // namespace trireme
