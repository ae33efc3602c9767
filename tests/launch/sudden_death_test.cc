// What is left when the process that supervises is killed itself: nothing.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include <gtest/gtest.h>

#include "launch/supervisor.h"
#include "tests/launch/testing.h"

namespace trireme::launch {
namespace {

/// Runs `body` in a forked process with a Supervisor; `body` should not return.
pid_t fork_supervisor(const std::function<void(Supervisor&)>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    Supervisor supervisor;
    body(supervisor);
    while (supervisor.alive() > 0) supervisor.wait(Deadline::in(10s));
    ::_exit(0);
  }
  return pid;
}

void kill_and_reap(pid_t pid) {
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
}

/// The pids that the processes wrote, one per line, once there are `count`.
std::vector<pid_t> pids_in(const std::filesystem::path& log, std::size_t count) {
  const auto lines = [&] {
    const std::string text = content_of(log);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  };
  EXPECT_TRUE(eventually([&] { return lines() == count; }));
  std::istringstream text(content_of(log));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; text >> pid;) pids.push_back(pid);
  return pids;
}

TEST(SuddenDeath, AKilledSupervisorLeavesNoChildren) {
  TempFolder folder;
  const pid_t helper = fork_supervisor([&](Supervisor& supervisor) {
    for (int i = 0; i < 3; ++i) supervisor.start(shell("echo $$; exec sleep 1000", folder / "pids"));
  });
  const std::vector<pid_t> pids = pids_in(folder / "pids", 3);
  for (const pid_t pid : pids) EXPECT_FALSE(is_gone(pid));
  kill_and_reap(helper);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << pid;
}

TEST(SuddenDeath, AKilledSupervisorLeavesNoGrandchildren) {
  TempFolder folder;
  const pid_t helper = fork_supervisor([&](Supervisor& supervisor) {
    supervisor.start(shell("trap '' TERM HUP; sleep 1000 & echo $!; echo $$; wait", folder / "pids"));
  });
  const std::vector<pid_t> pids = pids_in(folder / "pids", 2);
  kill_and_reap(helper);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << pid;
}

TEST(SuddenDeath, KilledProcessGroupLeavesNothing) {
  TempFolder folder;
  const pid_t helper = fork_supervisor([&](Supervisor& supervisor) {
    ::setpgid(0, 0);
    supervisor.start(shell("sleep 1000 & echo $!; echo $$; wait", folder / "pids"));
  });
  const std::vector<pid_t> pids = pids_in(folder / "pids", 2);
  ASSERT_EQ(::kill(-helper, SIGKILL), 0);
  ASSERT_EQ(::waitpid(helper, nullptr, 0), helper);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << pid;
}

TEST(SuddenDeath, WithoutItsGuardChildrenStillDie) {
  TempFolder folder;
  const pid_t helper = fork_supervisor([&](Supervisor& supervisor) {
    const std::string me = std::to_string(::getpid());
    const std::string guard = content_of("/proc/" + me + "/task/" + me + "/children");  // the only child so far
    ::kill(std::stoi(guard), SIGKILL);
    supervisor.start(shell("echo $$; exec sleep 1000", folder / "pids"));
  });
  const std::vector<pid_t> pids = pids_in(folder / "pids", 1);
  kill_and_reap(helper);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << pid;
}

TEST(SuddenDeath, AGuardDoesNotKeepOurOutputOpen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const Supervisor supervisor;  // its guard was forked with write_end open
  write_end.close();
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace trireme::launch
