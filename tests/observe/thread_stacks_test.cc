#include "observe/thread_stacks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/event_loop.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace trireme::observe {
namespace {

using testing::HasSubstr;

TEST(ThreadStacks, AllThreadsOfAProcessAnswer) {
  const TempFolder folder;
  allow_stack_dumps(folder.path(), "worker 0");
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  std::jthread waiter([&] {
    net::name_thread("a-waiter");
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return done; });
  });
  ASSERT_TRUE(eventually([&] {
    const auto threads = ask_for_stacks(folder.path(), "worker 0", ::getpid(), Deadline::in(20s));
    const auto found = std::ranges::find(threads, "a-waiter", &ThreadStack::name);
    return found != threads.end() && describe({*found}).find("pthread_cond_wait") != std::string::npos;
  }));
  for (const ThreadStack& thread : ask_for_stacks(folder.path(), "worker 0", ::getpid(), Deadline::in(20s))) {
    EXPECT_FALSE(thread.frames.empty()) << thread.name;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const std::lock_guard lock(mutex);
  done = true;
  wake.notify_all();
}

TEST(ThreadStacks, OfAProcessThatIsStoppedTheKernelTells) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ::kill(child, SIGSTOP);
  ASSERT_TRUE(eventually([&] {
    const auto threads = ask_for_stacks(folder.path(), "worker 1", child, Deadline::in(10ms));
    return threads.size() == 1 && threads[0].state == "stopped" && threads[0].frames.empty();
  }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(ask_for_stacks(folder.path(), "worker 1", child, Deadline::in(10ms)).empty());
}

TEST(ThreadStacks, AProcessThatDidNotAllowItIsLeftAlone) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(stacks_signal(), SIG_DFL);  // which would end it
    for (;;) ::pause();
  }
  const TempFolder folder;
  ASSERT_TRUE(eventually([&] {
    const auto threads = ask_for_stacks(folder.path(), "worker 1", child, Deadline::in(10ms));
    return threads.size() == 1 && threads[0].frames.empty();
  }));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(ThreadStacks, ParsesWhatAProcessWrote) {
  const auto threads = parse_stacks(
      "thread 71 heart beat\n/bin/x(_ZN7trireme4WaitEv+0x12) [0x1]\n/lib/libc.so.6(+0x3c050) [0x2]\nthread 72 b\n== "
      "end\n",
      /*symbols=*/false);
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].id, 71);
  EXPECT_EQ(threads[0].name, "heart beat");
  EXPECT_THAT(threads[0].frames, testing::ElementsAre("trireme::Wait()  (x)", "0x3c050  (libc.so.6)"));
  EXPECT_TRUE(threads[1].frames.empty());
  EXPECT_TRUE(parse_stacks("", true).empty());
  EXPECT_TRUE(parse_stacks("frames without a thread\n", true).empty());
}

}  // namespace
}  // namespace trireme::observe
