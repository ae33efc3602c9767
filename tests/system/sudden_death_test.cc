// Jobs whose processes are killed, stopped or asked to end: everybody learns of it, in time, and nothing is left.

#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/checkpoint/safetensors.h"

#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A job of two workers and a server that would train for hours.
class LongJob : public ::testing::Test {
 protected:
  void SetUp() override {
    worker_ = wait_for_member(job_.pid(), "worker", 1, run_, "attached to the parameter servers");
    server_ = wait_for_member(job_.pid(), "server", 0, run_, "listens");
    all_ = descendants(job_.pid());
    ASSERT_GT(worker_, 0) << job_.err();
    ASSERT_GT(server_, 0) << job_.err();
    ASSERT_GE(all_.size(), 4u);  // master, server, workers
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(run_ / "metrics.jsonl"); }));
  }

  void expect_nothing_left() {
    for (const pid_t pid : all_) EXPECT_TRUE(eventually([&] { return is_gone(pid); }, 2s)) << "process " << pid;
  }

  TempFolder folder_;
  const std::filesystem::path run_ = folder_ / "run";
  Program job_{folder_, trireme({"train", "--json", "--data-dir", make_images(folder_).string(), "--steps", "1000000",
                                 "--out", run_.string()})};
  pid_t worker_ = 0;
  pid_t server_ = 0;
  std::vector<pid_t> all_;
};

TEST_F(LongJob, EndsWhenAWorkerIsKilled) {
  const auto killed = Deadline::Clock::now();
  ::kill(worker_, SIGKILL);
  const Outcome outcome = job_.wait();
  EXPECT_LT(seconds(Deadline::Clock::now() - killed), 5);
  EXPECT_GT(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("worker 1"), HasSubstr("died"), HasSubstr("logs: ")));
  expect_nothing_left();
}

TEST_F(LongJob, EndsWhenAServerIsKilled) {
  const auto killed = Deadline::Clock::now();
  ::kill(server_, SIGKILL);
  const Outcome outcome = job_.wait();
  EXPECT_LT(seconds(Deadline::Clock::now() - killed), 5);
  EXPECT_GT(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("server 0"));
  expect_nothing_left();
}

TEST_F(LongJob, NoticesAWorkerThatHangs) {
  const auto stopped = Deadline::Clock::now();
  ::kill(worker_, SIGSTOP);
  const Outcome outcome = job_.wait();
  EXPECT_LT(seconds(Deadline::Clock::now() - stopped), 10);  // 3 s of silence, 2 s of grace
  EXPECT_GT(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("worker 1"), HasSubstr("hangs")));
  expect_nothing_left();
}

TEST_F(LongJob, LeavesNothingWhenTheLauncherIsKilled) {
  job_.send(SIGKILL);
  job_.wait();
  expect_nothing_left();
}

TEST_F(LongJob, SavesTheModelWhenAskedToStop) {
  job_.send(SIGINT);
  const Outcome outcome = job_.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto result = outcome.json();
  ASSERT_TRUE(result.is_object()) << outcome.out << outcome.err;
  EXPECT_LT(result.value("steps", 0), 1000000);
  EXPECT_EQ(checkpoint::SafetensorsFile(run_ / "model.safetensors").metadata().at("sha256"),
            result.value("parameters_sha256", ""));
  expect_nothing_left();
}

TEST_F(LongJob, EndsAtOnceWhenAskedTwice) {
  ::kill(worker_, SIGSTOP);  // so that a polite end would take its time
  const auto asked = Deadline::Clock::now();
  EXPECT_TRUE(eventually([&] {
    job_.send(SIGINT);  // signals close together count as one
    return is_gone(job_.pid());
  }));
  EXPECT_LT(seconds(Deadline::Clock::now() - asked), 3);
  job_.wait();
  expect_nothing_left();
}

}  // namespace
}  // namespace trireme::system_test
