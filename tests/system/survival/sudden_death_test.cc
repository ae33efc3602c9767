// Jobs whose processes are killed, stopped or asked to end: everybody learns of it, in time, and nothing is left.

#include <gtest/gtest.h>

#include "checkpoint/safetensors/safetensors.h"
#include "tests/system/training/long_job.h"

namespace trireme::system_test {
namespace {

/// With a server.
class SuddenDeath : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(long_.trains("servers_attached"));
    server_ = wait_for_member(long_.job.pid(), "server", 0, long_.run, "listening");
    ASSERT_GT(server_, 0) << long_.job.err();
    ASSERT_GE(long_.all.size(), 4u);  // master, server, workers
  }

  LongJob long_{{}};
  pid_t server_ = 0;
};

TEST_F(SuddenDeath, KilledLauncherLeavesNothing) {
  long_.job.send(SIGKILL);
  long_.job.wait();
  long_.expect_nothing_left();
}

TEST_F(SuddenDeath, OneSignalSavesTheModel) {
  long_.job.send(SIGINT);
  const Outcome outcome = long_.job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto result = outcome.json();
  ASSERT_TRUE(result.is_object()) << outcome.out << outcome.err;
  EXPECT_LT(result.value("steps", 0), 1000000);
  EXPECT_EQ(checkpoint::SafetensorsFile(long_.run / "model.safetensors").metadata().at("sha256"),
            result.value("parameters_sha256", ""));
  long_.expect_nothing_left();
}

TEST_F(SuddenDeath, TwoSignalsEndAtOnce) {
  ::kill(long_.worker, SIGSTOP);  // so that a polite end would take its time
  const auto gone = [&] {
    long_.job.send(SIGINT);  // signals close together count as one
    return is_gone(long_.job.pid());
  };
  EXPECT_TRUE(eventually(gone));
  EXPECT_EQ(long_.job.wait().status, 128 + SIGINT) << "there is no model";
  EXPECT_FALSE(std::filesystem::exists(long_.run / "model.safetensors")) << "it waited for the stopped worker's place";
  long_.expect_nothing_left();
}

}  // namespace
}  // namespace trireme::system_test
