#include "launch/exit.h"

#include <signal.h>
#include <sys/wait.h>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

using testing::HasSubstr;

constexpr bool kToldToStop = true;

Exit exited(int status, bool told_to_stop = false) {
  return describe_exit("worker 1", 7, {.code = CLD_EXITED, .value = status}, told_to_stop);
}

Exit killed(int signal, bool told_to_stop = false) {
  return describe_exit("worker 1", 7, {.code = CLD_KILLED, .value = signal}, told_to_stop);
}

TEST(Exit, SaysHowAProcessEnded) {
  EXPECT_EQ(exited(0).how, "exited with status 0");
  EXPECT_EQ(exited(3).how, "exited with status 3");
  EXPECT_EQ(killed(SIGSEGV).how, "died of SIGSEGV (Segmentation fault)");
  EXPECT_EQ(describe_exit("w", 7, {.code = CLD_DUMPED, .value = SIGABRT}, false).how,
            "died of SIGABRT (Aborted), core dumped");
  EXPECT_THAT(killed(SIGKILL).how, HasSubstr("out of memory"));
  EXPECT_EQ(killed(SIGKILL, kToldToStop).how, "died of SIGKILL (Killed), as asked");
  EXPECT_EQ(killed(SIGRTMIN).how, "died of signal " + std::to_string(SIGRTMIN));
}

TEST(Exit, KeepsNamePidAndStatus) {
  const Exit exit = killed(SIGSEGV);
  EXPECT_EQ(exit.name, "worker 1");
  EXPECT_EQ(exit.pid, 7);
  EXPECT_EQ(exit.signal, SIGSEGV);
  EXPECT_EQ(exit.status, 128 + SIGSEGV);
  EXPECT_EQ(exited(5).signal, 0);
}

TEST(Exit, OnlyTheSignalsWeSendCountAsOurs) {
  for (const Exit& ours : {exited(0, kToldToStop), exited(143, kToldToStop), exited(137, kToldToStop),
                           killed(SIGTERM, kToldToStop), killed(SIGKILL, kToldToStop)}) {
    EXPECT_TRUE(ours.by_us) << ours.how;
  }
  for (const Exit& theirs : {exited(1, kToldToStop), killed(SIGSEGV, kToldToStop), killed(SIGABRT, kToldToStop),
                             exited(0), exited(143), killed(SIGTERM), killed(SIGKILL)}) {
    EXPECT_FALSE(theirs.by_us) << theirs.how;
  }
}

TEST(Exit, WorstStatus) {
  struct Case {
    std::vector<Exit> exits;
    int worst;
  };
  const std::vector<Case> table = {
      {{}, 0},
      {{exited(0), exited(0)}, 0},
      {{exited(0), exited(3), exited(0)}, 3},
      {{exited(3), exited(7)}, 7},
      {{exited(7), exited(3)}, 7},
      {{killed(SIGSEGV), exited(255)}, 128 + SIGSEGV},  // a crash beats any failed exit
      {{exited(255), killed(SIGHUP)}, 128 + SIGHUP},
      {{killed(SIGKILL), killed(SIGSEGV)}, 128 + SIGSEGV},
      {{exited(0), killed(SIGTERM)}, 128 + SIGTERM},
      {{exited(0), killed(SIGTERM, kToldToStop), killed(SIGKILL, kToldToStop)}, 0},
      {{exited(3), killed(SIGKILL, kToldToStop)}, 3},
      {{killed(SIGSEGV, kToldToStop)}, 128 + SIGSEGV},  // a crash while stopping is a crash
      {{exited(1, kToldToStop)}, 1},
  };
  for (const Case& row : table) EXPECT_EQ(worst_status(row.exits), row.worst);
}

}  // namespace
}  // namespace trireme::launch
