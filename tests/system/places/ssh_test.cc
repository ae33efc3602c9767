// Jobs on other hosts over ssh: networks of this machine, each with an sshd. Whatever dies, nothing is left on any
// host, and the parameters are those of a job on one host.

#include <signal.h>
#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/host.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

/// Not those that OpenBLAS would choose for this processor by itself: other last bits.
const std::pair<const std::string, std::string> kOtherKernels{"OPENBLAS_CORETYPE", "Prescott"};

class Ssh : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || !std::filesystem::exists("/usr/sbin/sshd")) GTEST_SKIP() << "sshd needs root";
    hosts_ = Host::make_routed(2);
    if (hosts_.empty()) GTEST_SKIP() << "network namespaces are not permitted here";
    hosts_[0]->run([] { bring_up("lo", "127.0.0.1"); });  // the launcher, there, talks to its own master
    std::filesystem::create_directories("/run/sshd");
    make_key("host_key");
    make_key("client_key");
    folder_.write("ssh_config",
                  "Host *\n  User root\n  Port 2222\n  StrictHostKeyChecking no\n"
                  "  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  IdentityFile " +
                      (folder_ / "client_key").string() + "\n");
    for (int number : {1, 2}) daemons_.push_back(start_sshd(number));
    folder_.write("ready", "");
    for (int number : {1, 2}) {
      ASSERT_TRUE(eventually([&] {
        return Program(folder_,
                       on_router({"/usr/bin/ssh", "-F", (folder_ / "ssh_config").string(), address(number), "true"}))
                   .wait()
                   .status == 0;
      })) << daemons_[static_cast<std::size_t>(number - 1)]->err();
    }
  }

  std::string address(int number) const { return hosts_.at(static_cast<std::size_t>(number))->address(); }

  void make_key(const std::string& name) const {
    const Words words{"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", (folder_ / name).string()};
    ASSERT_EQ(Program(folder_, words).wait().status, 0);
  }

  std::unique_ptr<Program> start_sshd(int number) const {
    const std::string name = "sshd_config" + std::to_string(number);
    folder_.write(name, "Port 2222\nListenAddress " + address(number) + "\nHostKey " + (folder_ / "host_key").string() +
                            "\nAuthorizedKeysFile " + (folder_ / "client_key.pub").string() +
                            "\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n");
    Words words = hosts_.at(static_cast<std::size_t>(number))->site().enter_with;
    words.insert(words.end(), {"/usr/sbin/sshd", "-D", "-e", "-f", (folder_ / name).string()});
    return std::make_unique<Program>(folder_, words);
  }

  /// Where the launcher is.
  Words on_router(const Words& command) const {
    Words words = hosts_.front()->site().enter_with;
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  Words train(const Words& flags) const {
    Words words =
        trireme({"train", "--data-dir", images_.string(), "--json", "--batch", "32", "--threads", "1", "--lanes", "2"});
    if (std::ranges::count(flags, "--steps") == 0) words.insert(words.end(), {"--steps", "30"});
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }

  std::unique_ptr<Program> launch(const Words& flags) const {
    return std::make_unique<Program>(
        folder_, on_router(train(flags)),
        Program::Environment{{"TRIREME_SSH", "ssh -F " + (folder_ / "ssh_config").string()}, kOtherKernels});
  }

  /// Whether packets between that host and all others are lost, at that host.
  void set_cut(int number, bool cut) const {
    hosts_.at(static_cast<std::size_t>(number))->run([&] {
      for (const char* other : {"10.99.1.1", "10.99.1.2", "10.99.2.1"}) {
        lose_packets(address(number), other, cut);
      }
    });
  }

  std::string both_hosts() const { return address(1) + ":1," + address(2) + ":1"; }

  static std::string parameters(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    return outcome.status == 0 ? outcome.json().value("parameters_sha256", "?") : "";
  }

  std::string own_parameters(const Words& flags = {}) const {
    Words all = train(flags);
    all.insert(all.end(), {"--workers", "2"});
    return parameters(Program(folder_, all, {kOtherKernels}).wait());
  }

  /// Processes of jobs that work in the test's folder, by what they are: on this machine all hosts are.
  std::vector<std::pair<pid_t, std::string>> processes() const {
    std::vector<std::pair<pid_t, std::string>> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      std::error_code ignored;
      if (pid <= 0 || std::filesystem::read_symlink(entry.path() / "cwd", ignored) != folder_.path()) continue;
      std::ifstream file(entry.path() / "cmdline", std::ios::binary);
      std::string command{std::istreambuf_iterator<char>(file), {}};
      std::ranges::replace(command, '\0', ' ');
      if (!command.empty() && command.find("sshd") == std::string::npos) found.emplace_back(pid, command);
    }
    return found;
  }

  /// The first of them whose command has these words; 0 if there is none in time.
  pid_t wait_for_process(const std::string& words) const {
    pid_t result = 0;
    const bool found = eventually([&] {
      for (const auto& [pid, command] : processes()) {
        if (command.find(words) != std::string::npos) result = pid;
      }
      return result != 0;
    });
    return found ? result : 0;
  }

  ::testing::AssertionResult nothing_is_left() const {
    if (eventually([&] { return processes().empty(); })) return ::testing::AssertionSuccess();
    auto failure = ::testing::AssertionFailure();
    for (const auto& [pid, command] : processes()) failure << pid << ": " << command.substr(0, 200) << "\n";
    return failure;
  }

  /// Until worker `slot` has joined, or has logged another event.
  ::testing::AssertionResult has_joined(int slot, const char* event = "joined") const {
    const auto log = folder_ / ("run/logs/worker-" + std::to_string(slot) + ".log");
    if (eventually([&] { return std::filesystem::exists(log) && has_event(read_file(log), event); })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << (std::filesystem::exists(log) ? read_file(log) : "no log");
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Program>> daemons_;
};

TEST_F(Ssh, TwoHostsGiveTheBitsOfOne) {
  const std::string wanted = own_parameters();
  EXPECT_EQ(parameters(launch({"--hosts", both_hosts(), "--out", "run"})->wait()), wanted);
  EXPECT_TRUE(has_joined(1));
  EXPECT_EQ(parameters(launch({"--hosts", both_hosts(), "--strategy", "allreduce", "--out", "second"})->wait()),
            wanted);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, AHostWithoutTheBuildOrTheWayInIsNamedBeforeAnythingStarts) {
  const Outcome nobody = launch({"--hosts", address(1) + ":1,10.99.1.77:1", "--out", "run"})->wait();
  EXPECT_EQ(nobody.status, 2);
  EXPECT_THAT(nobody.err, HasSubstr("host 10.99.1.77 cannot be used"));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, NothingIsLeftOnAnyHostWhenTheLauncherIsKilled) {
  const auto job = launch({"--hosts", both_hosts(), "--step-ms", "200", "--steps", "1000", "--out", "run"});
  ASSERT_TRUE(has_joined(0));
  ASSERT_TRUE(has_joined(1));
  EXPECT_GE(processes().size(), 8u);  // launcher, master, and for each member: carry, ssh, agent, process
  job->send(SIGKILL);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, AnSshThatIsKilledCostsOneWorkerForAWhile) {
  const Words slow{"--step-ms", "50"};
  const std::string wanted = own_parameters(slow);
  const auto job = launch({"--hosts", both_hosts(), "--step-ms", "50", "--out", "run"});
  ASSERT_TRUE(has_joined(1));
  const pid_t carrier = wait_for_process("--slot worker 1");
  ASSERT_GT(carrier, 0);
  const auto children = descendants(carrier);
  ASSERT_EQ(children.size(), 1u);  // its ssh
  ::kill(children.front(), SIGKILL);
  EXPECT_EQ(parameters(job->wait()), wanted);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, AHostThatLosesEverythingIsDoneWithoutUntilItIsBack) {
  const Words slow{"--step-ms", "100", "--strategy", "allreduce"};
  const std::string wanted = own_parameters(slow);
  const auto job = launch({"--hosts", both_hosts(), "--step-ms", "100", "--strategy", "allreduce", "--out", "run"});
  ASSERT_TRUE(has_joined(1));
  const pid_t sessions = daemons_[1]->pid();
  for (const pid_t pid : descendants(sessions)) ::kill(pid, SIGKILL);  // agents, workers, and the ends of ssh
  EXPECT_EQ(parameters(job->wait()), wanted);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, AHostThatIsCutOffForAWhileTakesPartAgain) {
  const Words slow{"--step-ms", "200", "--strategy", "allreduce", "--steps", "60"};
  const std::string wanted = own_parameters(slow);
  Words flags{"--hosts", both_hosts(), "--out", "run"};
  flags.insert(flags.end(), slow.begin(), slow.end());
  const auto job = launch(flags);
  ASSERT_TRUE(has_joined(1));
  set_cut(2, true);
  const auto lost = [&] {
    return has_event(read_file(folder_ / "run/logs/master.log"), {"member_lost", {{"member", "worker 1"}}});
  };
  ASSERT_TRUE(eventually(lost)) << job->err();
  set_cut(2, false);
  EXPECT_EQ(parameters(job->wait(120s)), wanted);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, SignalsReachTheWorkersOnTheOtherHosts) {
  const auto job = launch({"--hosts", both_hosts(), "--step-ms", "100", "--steps", "1000", "--out", "run"});
  ASSERT_TRUE(has_joined(1));
  job->send(SIGTERM);
  const Outcome outcome = job->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/model.safetensors"));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, AJobIsScaledAsFarAsItsHostsHaveRoom) {
  const Words common{"--strategy", "allreduce", "--schedule", "constant"};
  Words flags{"--hosts", address(1) + ":2," + address(2) + ":1", "--workers", "2", "--out", "run"};
  flags.insert(flags.end(), {"--step-ms", "50", "--steps", "1000000"});
  flags.insert(flags.end(), common.begin(), common.end());
  const auto job = launch(flags);
  ASSERT_TRUE(has_joined(1)) << job->err();
  const auto scale = [&](const char* workers) {
    return Program(folder_, on_router(trireme({"scale", "run", workers}))).wait();
  };
  const auto wanted = [&](int workers) {
    return count_events(read_file(folder_ / "run/logs/master.log"), {"scale_requested", {{"workers", workers}}});
  };
  ASSERT_TRUE(eventually([&] { return scale("3").status == 0; })) << job->err();  // soon there is a plan
  const auto third_joined = [&] {                                                 // in reserve: there are two lanes
    return has_event(read_file(folder_ / "run/logs/master.log"), {"member_joined", {{"member", "worker 2"}}});
  };
  ASSERT_TRUE(eventually(third_joined)) << job->err();
  EXPECT_EQ(scale("4").status, 0);
  const auto as_before = [&] { return wanted(4) == 1 && wanted(3) == 2; };
  ASSERT_TRUE(eventually(as_before)) << job->err();
  job->send(SIGTERM);
  const Outcome outcome = job->wait();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Words calm{"--steps", std::to_string(outcome.json().value("steps", 0))};
  calm.insert(calm.end(), common.begin(), common.end());
  EXPECT_EQ(parameters(outcome), own_parameters(calm));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, HostsComeAndGo) {
  const Words common{"--strategy", "allreduce", "--schedule", "constant"};
  folder_.write("hosts", address(1) + ":1\n");
  folder_.write("discover.sh", "#!/bin/sh\ncat " + (folder_ / "hosts").string() + "\n");
  std::filesystem::permissions(folder_ / "discover.sh", std::filesystem::perms::owner_all);
  Words flags{"--discover", "./discover.sh", "--out", "run", "--step-ms", "50", "--steps", "1000000"};
  flags.insert(flags.end(), common.begin(), common.end());
  const auto job = launch(flags);
  ASSERT_TRUE(has_joined(0)) << job->err();
  folder_.write("hosts", address(1) + ":1\n" + address(2) + " slots=1\n");
  ASSERT_TRUE(has_joined(1, "view_entered")) << job->err();
  folder_.write("hosts", address(2) + " slots=1\n");
  ASSERT_TRUE(eventually([&] {
    return read_file(folder_ / "run/logs/worker-0.log").find("is to take worker 0 no longer") != std::string::npos;
  })) << job->err();
  const auto alone_again = [&] {
    return count_events(read_file(folder_ / "run/logs/master.log"), {"view_formed", {{"workers", 1}}}) > 1;
  };
  ASSERT_TRUE(eventually(alone_again)) << job->err();
  job->send(SIGTERM);
  const Outcome outcome = job->wait();
  ASSERT_EQ(outcome.status, 0) << outcome.err << read_file(folder_ / "run/logs/worker-1.log");
  Words calm{"--steps", std::to_string(outcome.json().value("steps", 0))};
  calm.insert(calm.end(), common.begin(), common.end());
  EXPECT_EQ(parameters(outcome), own_parameters(calm)) << read_file(folder_ / "run/logs/worker-1.log");
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace trireme::system_test
