#include "base/mutex.h"

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// Whether another thread could lock it now.
template <class AnyMutex>
bool is_free(AnyMutex& mutex) {
  return std::async(std::launch::async,
                    [&] {
                      if (!mutex.try_lock()) return false;
                      mutex.unlock();
                      return true;
                    })
      .get();
}

TEST(MutexLock, HoldsTheMutexToTheEndOfTheScope) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexLock, UnlockedAndLockedAgain) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexLock, UnlockedAtTheEndOfTheScope_UnlocksOnce) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    lock.unlock();
    mutex.lock();  // somebody else's
  }
  EXPECT_FALSE(is_free(mutex));
  mutex.unlock();
}

TEST(MutexLock, AdoptsWhatTryLockHasLocked) {
  Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  {
    const MutexLock lock(mutex, std::adopt_lock);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(RecursiveMutex, TheThreadThatHoldsItLocksItAgain_OthersWait) {
  RecursiveMutex mutex;
  {
    const MutexLock lock(mutex);
    {
      const MutexLock again(mutex);
      EXPECT_FALSE(is_free(mutex));
    }
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

template <class AnyCondition>
class Conditions : public testing::Test {
 protected:
  Mutex mutex_;
  AnyCondition changed_;
  bool done_ = false;
};
using BothConditions = testing::Types<Condition, StoppableCondition>;
TYPED_TEST_SUITE(Conditions, BothConditions);

TYPED_TEST(Conditions, Wait_PredicateTrueAlready_ReturnsAtOnceWithTheMutex) {
  const MutexLock lock(this->mutex_);
  this->changed_.wait(this->mutex_, [] { return true; });
  EXPECT_TRUE(this->changed_.wait(this->mutex_, Deadline::in(-1s), [] { return true; }));
  EXPECT_FALSE(is_free(this->mutex_));
}

TYPED_TEST(Conditions, Wait_Notified_ReturnsWithTheMutex) {
  std::jthread other;
  const MutexLock lock(this->mutex_);
  other = std::jthread([this] {
    const MutexLock theirs(this->mutex_);  // is to be had only because the wait below lets go of it
    this->done_ = true;
    this->changed_.notify_all();
  });
  this->changed_.wait(this->mutex_, [this] { return this->done_; });
  EXPECT_TRUE(this->done_);
  EXPECT_FALSE(is_free(this->mutex_));
}

TYPED_TEST(Conditions, Wait_NotifiedBeforeTheDeadline_ReturnsTrue) {
  std::jthread other;
  const MutexLock lock(this->mutex_);
  other = std::jthread([this] {
    {
      const MutexLock theirs(this->mutex_);
      this->done_ = true;
    }
    this->changed_.notify_one();
  });
  EXPECT_TRUE(this->changed_.wait(this->mutex_, Deadline::in(1h), [this] { return this->done_; }));
}

TYPED_TEST(Conditions, Wait_DeadlinePasses_ReturnsFalseWithTheMutex) {
  const MutexLock lock(this->mutex_);
  const Deadline deadline = Deadline::in(5ms);
  EXPECT_FALSE(this->changed_.wait(this->mutex_, deadline, [] { return false; }));
  EXPECT_TRUE(deadline.passed());
  EXPECT_FALSE(is_free(this->mutex_));
}

TYPED_TEST(Conditions, Wait_PredicateThrows_TheMutexStaysWithTheLock) {
  {
    const MutexLock lock(this->mutex_);
    const auto refuse = []() -> bool { throw std::runtime_error("no"); };
    EXPECT_THROW(this->changed_.wait(this->mutex_, refuse), std::runtime_error);
    EXPECT_THROW(this->changed_.wait(this->mutex_, Deadline::in(1h), refuse), std::runtime_error);
    EXPECT_FALSE(is_free(this->mutex_));
  }
  EXPECT_TRUE(is_free(this->mutex_));
}

TEST(StoppableCondition, Wait_StopRequested_ReturnsWhatThePredicateSays) {
  Mutex mutex;
  StoppableCondition changed;
  std::stop_source stop;
  stop.request_stop();
  const MutexLock lock(mutex);
  EXPECT_FALSE(changed.wait(mutex, stop.get_token(), [] { return false; }));
  EXPECT_TRUE(changed.wait(mutex, stop.get_token(), [] { return true; }));
  EXPECT_FALSE(changed.wait(mutex, stop.get_token(), Deadline::in(1h), [] { return false; }));
  EXPECT_FALSE(is_free(mutex));
}

TEST(StoppableCondition, Wait_StopWakesIt_ReturnsWithTheMutex) {
  Mutex mutex;
  StoppableCondition changed;
  std::atomic<int> asked = 0;
  const auto asks = [&] {
    ++asked;
    return false;
  };
  for (const bool with_deadline : {false, true}) {
    asked = 0;
    std::stop_source stop;
    const std::jthread other([&] {
      while (asked == 0) std::this_thread::yield();
      const MutexLock theirs(mutex);  // from here on it sleeps
      stop.request_stop();
    });
    const MutexLock lock(mutex);
    EXPECT_FALSE(with_deadline ? changed.wait(mutex, stop.get_token(), Deadline::in(1h), asks)
                               : changed.wait(mutex, stop.get_token(), asks));
    EXPECT_TRUE(stop.stop_requested());
    EXPECT_FALSE(is_free(mutex));
  }
}

TEST(StoppableCondition, Wait_NoStopRequested_EndsByNotificationOrDeadline) {
  Mutex mutex;
  StoppableCondition changed;
  const std::stop_source stop;
  bool done = false;
  std::jthread other;
  const MutexLock lock(mutex);
  const Deadline deadline = Deadline::in(5ms);
  EXPECT_FALSE(changed.wait(mutex, stop.get_token(), deadline, [&] { return done; }));
  EXPECT_TRUE(deadline.passed());
  other = std::jthread([&] {
    const MutexLock theirs(mutex);
    done = true;
    changed.notify_all();
  });
  EXPECT_TRUE(changed.wait(mutex, stop.get_token(), [&] { return done; }));
}

TEST(SleepFor, TimePasses_ReturnsFalse) {
  const std::stop_source stop;
  const auto began = Deadline::Clock::now();
  EXPECT_FALSE(sleep_for(stop.get_token(), 5ms));
  EXPECT_GE(Deadline::Clock::now() - began, 5ms);
  EXPECT_FALSE(sleep_until(stop.get_token(), began));
}

TEST(SleepFor, StopRequested_ReturnsTrueAtOnce) {
  std::stop_source stop;
  const std::jthread other([&] { stop.request_stop(); });
  EXPECT_TRUE(sleep_for(stop.get_token(), 1h));
  EXPECT_TRUE(sleep_until(stop.get_token(), Deadline::Clock::now() + 1h));
}

}  // namespace
}  // namespace trireme
