// Training by all-reduce, by whole jobs of real processes: no servers, and the bits that servers would give.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/training/long_job.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Flags = std::vector<std::string>;

class Strategies : public ::testing::Test {
 protected:
  Outcome train(Flags flags) {
    flags.insert(flags.begin(), {"train", "--data-dir", images_.string()});
    return run_trireme(folder_, flags);
  }

  /// 50 steps of LeNet on 4 lanes.
  nlohmann::json result(const Flags& flags) {
    Flags all{"--json", "--lanes", "4", "--steps", "50", "--batch", "32"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = train(all);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const auto result = outcome.json();
    EXPECT_EQ(result.value("steps", 0), 50);
    return result.is_object() ? result : nlohmann::json::object();
  }

  std::string hash(const Flags& flags) { return result(flags).value("parameters_sha256", ""); }

  void refuse(Flags flags, const ::testing::Matcher<const std::string&>& message) {
    flags.push_back("--json");
    const Outcome outcome = train(flags);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, message);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << "refused, but a run folder was made";
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Strategies, AllReduceGivesTheBitsOfServersForAnyNumberOfWorkers) {
  const std::string servers = hash({"--strategy", "ps", "--workers", "2"});
  EXPECT_EQ(servers.size(), 64u);
  for (const std::string transport : {"shm", "tcp"}) {
    for (const std::string workers : {"1", "2", "4"}) {
      EXPECT_EQ(hash({"--strategy", "allreduce", "--workers", workers, "--transport", transport}), servers)
          << workers << " workers over " << transport;
    }
  }
}

TEST_F(Strategies, AllReduceWorksOverTls) {
  EXPECT_EQ(hash({"--strategy", "allreduce", "--workers", "2", "--transport", "tls"}),
            hash({"--strategy", "allreduce", "--workers", "1"}));
}

TEST_F(Strategies, CentralIsBspOnOneServer) {
  const auto central = result({"--strategy", "central", "--workers", "2"});
  EXPECT_EQ(central.value("strategy", ""), "central");
  EXPECT_EQ(central.value("parameters_sha256", ""), hash({"--workers", "2"}));
}

TEST_F(Strategies, ResultNamesTheStrategyAndItsTraffic) {
  const auto reduced = result({"--strategy", "allreduce", "--workers", "2", "--out", "reduced"});
  EXPECT_EQ(reduced.value("strategy", ""), "allreduce");
  EXPECT_GT(reduced.value("wire_bytes", 0), 50 * 61706 * 4 / 2);
  EXPECT_EQ(reduced.value("clock_spread_max", -1), 0);
  EXPECT_EQ(result({"--workers", "2"}).value("strategy", ""), "ps:bsp");

  std::vector<std::string> logs;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "reduced" / "logs")) {
    logs.push_back(entry.path().filename());
  }
  EXPECT_THAT(logs, UnorderedElementsAre("master.log", "worker-0.log", "worker-1.log"));

  const std::string metrics = read_file(folder_ / "reduced" / "metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr("\"strategy\":\"allreduce\""));
  EXPECT_THAT(metrics, Not(HasSubstr("\"clock_max\":0,"))) << "workers in step have a clock";

  const auto config = read_file(folder_ / "reduced" / "config.toml");
  EXPECT_THAT(config, AllOf(HasSubstr("strategy=\"allreduce\""), HasSubstr("servers=0")));
}

TEST_F(Strategies, ConfigOfARunReproducesIt) {
  const std::string once = hash({"--strategy", "allreduce", "--workers", "2", "--out", "one"});
  const Outcome again = run_trireme(folder_, {"train", "--config", "one/config.toml", "--json", "--out", "two"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.json().value("parameters_sha256", ""), once);
}

TEST_F(Strategies, OutputOfAllReduceMentionsNoServers) {
  const Outcome outcome = train({"--strategy", "allreduce", "--steps", "3", "--model", "mlp"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("with 2 workers, allreduce"), HasSubstr("strategy allreduce, "),
                                 HasSubstr("MiB moved"), HasSubstr("after 3 steps")));
}

TEST_F(Strategies, AccumulatingGivesTheSameBitsForAnyNumberOfWorkers) {
  const std::string alone = hash({"--strategy", "allreduce", "--workers", "1", "--accumulate", "3"});
  EXPECT_EQ(hash({"--strategy", "allreduce", "--workers", "4", "--accumulate", "3"}), alone);
  EXPECT_EQ(hash({"--strategy", "ps", "--workers", "2", "--accumulate", "3"}), alone);
}

TEST_F(Strategies, InvalidCombinationsAreRefusedBeforeTheStart) {
  refuse({"--strategy", "allreduse"}, AllOf(HasSubstr("'allreduse'"), HasSubstr("did you mean 'allreduce'")));
  refuse({"--strategy", "local-sgd"}, HasSubstr("local-sgd:16"));
  refuse({"--strategy", "allreduce", "--consistency", "bsp"}, AllOf(HasSubstr("--consistency"), HasSubstr("ps")));
  refuse({"--strategy", "central", "--backup-workers", "1"}, HasSubstr("--backup-workers"));
  refuse({"--strategy", "allreduce", "--servers", "1"}, HasSubstr("--servers 1"));
  refuse({"--strategy", "central", "--servers", "2"}, HasSubstr("2 servers"));
  refuse({"--strategy", "allreduce", "--buffers", "mine"}, HasSubstr("'mine'"));
  refuse({"--accumulate", "0"}, HasSubstr("--accumulate 0"));
}

TEST_F(Strategies, AProgramRunsWithoutServers) {
  const Outcome outcome = run_trireme(
      folder_, {"run", "-w", "2", "-s", "0", "--out", "run", "--", "/bin/sh", "-c",
                "echo \"$TRIREME_RANK, $TRIREME_SERVERS servers\"; exec " TRIREME_BINARY_DIR "/all_reduce"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(read_file(folder_ / "run" / "logs" / "worker-1.log"),
              AllOf(HasSubstr("1, 0 servers\n"), HasSubstr("the sum is 3\n")));
}

TEST_F(Strategies, ALossThatIsNotFiniteEndsTheJobWithItsReason) {
  const Outcome outcome =
      train({"--json", "--strategy", "allreduce", "--optimizer", "sgd", "--lr", "1e30", "--steps", "1000"});
  EXPECT_GT(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the loss is "), HasSubstr(" at step ")));
}

/// Without servers, by transport.
class LongAllReduce : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(long_.trains("group_formed"));
    ASSERT_GE(long_.all.size(), 3u);  // master, workers
  }

  LongJob long_{{"--strategy", "allreduce", "--transport", GetParam()}};
};

TEST_P(LongAllReduce, ContinuesWhenAWorkerIsKilled) {
  ::kill(long_.worker, SIGKILL);
  const auto log = long_.run / "logs" / "worker-1.log";
  EXPECT_TRUE(eventually([&] {
    bool came_back = false;
    for (const LoggedEvent& event : events_in(read_file(log))) {
      if (event.key == "became_learner") came_back = true;
      if (event.key == "group_formed" && came_back) return true;
    }
    return false;
  })) << read_file(log);
  long_.job.send(SIGINT);
  EXPECT_EQ(long_.job.wait().status, 0) << long_.job.err();
}

TEST_P(LongAllReduce, SavesTheModelWhenAskedToStop) {
  long_.job.send(SIGINT);
  const Outcome outcome = long_.job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(long_.run / "model.safetensors"));
  EXPECT_LT(outcome.json().value("steps", 1000000), 1000000);
  long_.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Transport, LongAllReduce, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace trireme::system_test
