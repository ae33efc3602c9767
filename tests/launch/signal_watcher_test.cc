#include "launch/signal_watcher.h"

#include <poll.h>
#include <signal.h>

#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme::launch {
namespace {

/// Signals start from their defaults, whoever started this test.
class SignalWatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::signal(signal, SIG_DFL);
  }

  static bool readable(const SignalWatcher& watcher) {
    pollfd ready{.fd = watcher.descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, 0) == 1;
  }
};

TEST_F(SignalWatcherTest, ReportsNothingWithoutSignals) {
  SignalWatcher watcher;
  EXPECT_FALSE(readable(watcher));
  EXPECT_EQ(watcher.take(), StopRequest::kNone);
  EXPECT_EQ(watcher.signal(), 0);
}

TEST_F(SignalWatcherTest, FirstSignalIsStopSecondIsStopNow) {
  SignalWatcher watcher({.together = 0ms});
  ::raise(SIGINT);
  EXPECT_TRUE(readable(watcher));
  EXPECT_EQ(watcher.take(), StopRequest::kStop);
  EXPECT_EQ(watcher.take(), StopRequest::kNone);
  EXPECT_FALSE(readable(watcher));
  ::raise(SIGTERM);
  EXPECT_EQ(watcher.take(), StopRequest::kStopNow);
  EXPECT_EQ(watcher.signal(), SIGINT);
}

TEST_F(SignalWatcherTest, TheWarningOfASchedulerIsAStop) {
  SignalWatcher watcher;
  ::raise(SIGUSR1);
  EXPECT_EQ(watcher.take(), StopRequest::kStop);
  EXPECT_EQ(watcher.signal(), SIGUSR1);
}

TEST_F(SignalWatcherTest, TwoPendingSignalsAreStopNow) {
  SignalWatcher watcher({.together = 0ms});
  ::raise(SIGTERM);
  ::raise(SIGTERM);
  EXPECT_EQ(watcher.take(), StopRequest::kStopNow);
}

TEST_F(SignalWatcherTest, SignalsSentTogetherAreOneRequest) {
  SignalWatcher watcher({.together = 1h});
  ::raise(SIGTERM);
  ::raise(SIGTERM);
  EXPECT_EQ(watcher.take(), StopRequest::kStop);
  ::raise(SIGTERM);
  EXPECT_EQ(watcher.take(), StopRequest::kNone);
}

TEST_F(SignalWatcherTest, AnIgnoredSignalStaysIgnored) {
  ::signal(SIGHUP, SIG_IGN);  // as nohup does
  SignalWatcher watcher;
  ::raise(SIGHUP);
  EXPECT_EQ(watcher.take(), StopRequest::kNone);
}

TEST_F(SignalWatcherTest, HandlersAreRestored) {
  { SignalWatcher watcher; }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) EXPECT_EQ(::signal(signal, SIG_DFL), SIG_DFL);
  SignalWatcher another;  // one at a time, but any number in turn
}

TEST_F(SignalWatcherTest, ManySignalsDoNotBlock) {
  SignalWatcher watcher({.together = 0ms});
  for (int i = 0; i < 10'000; ++i) ::raise(SIGTERM);
  EXPECT_EQ(watcher.take(), StopRequest::kStopNow);
  EXPECT_EQ(watcher.take(), StopRequest::kNone);
}

}  // namespace
}  // namespace trireme::launch
