#include "launch/job/master_process.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "master/master.h"
#include "tests/launch/testing.h"
#include "tests/support/secret.h"

namespace trireme::launch {
namespace {

using ::testing::HasSubstr;

/// A port of this host that accepts connections, and never says a word.
class SilentListener {
 public:
  SilentListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(any);
    auto* address = reinterpret_cast<sockaddr*>(&any);
    if (::bind(socket_.get(), address, size) != 0 || ::listen(socket_.get(), 8) != 0) fail_errno("cannot listen");
    ::getsockname(socket_.get(), address, &size);
    port_ = ntohs(any.sin_port);
  }
  net::Address address() const { return {.host = "127.0.0.1", .port = port_}; }

 private:
  FileDescriptor socket_;
  std::uint16_t port_ = 0;
};

/// A master whose process only waits to be killed; what it does is done by the test.
class MasterProcessTest : public ::testing::Test {
 protected:
  ~MasterProcessTest() override {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  MasterProcess make(bool replaceable = true, std::chrono::milliseconds answers_within = 50ms) {
    return MasterProcess({.announce = announce_,
                          .secret = kSecret,
                          .replaceable = replaceable,
                          .start = [this] { return start(); },
                          .listens_within = 1s,
                          .answers_within = answers_within});
  }

  pid_t start() {
    ++starts_;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::alarm(60);
      for (;;) ::pause();
    }
    ::setpgid(pid_, pid_);
    return pid_;
  }

  void announce(const net::Address& address) {
    write_file_atomically(announce_, as_bytes(nlohmann::json(address).dump()));
  }

  /// How the process ended.
  Exit ended() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return {.name = "master", .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  }

  bool runs() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

  static MasterProcess::Time at(std::chrono::milliseconds time) { return MasterProcess::Time() + 1h + time; }

  const TempFolder folder_;
  const std::filesystem::path announce_ = folder_ / "master.json";
  pid_t pid_ = 0;
  int starts_ = 0;
};

TEST_F(MasterProcessTest, HungMasterIsKilledAndReplaced) {
  const SilentListener hung;
  MasterProcess master = make();
  master.start(at(0ms));
  announce(hung.address());
  master.look(at(1ms));
  ASSERT_TRUE(master.listening());
  EXPECT_THROW(master.status(), Timeout);
  EXPECT_TRUE(runs()) << "once may be our own fault";
  EXPECT_THROW(master.status(), Timeout);
  const Exit exit = ended();
  EXPECT_EQ(exit.signal, SIGKILL);
  master.note_end();
  const RestartDecision decision = master.restart(exit, at(2ms));
  EXPECT_TRUE(decision.again);
  EXPECT_THAT(decision.reason, HasSubstr("2 questions in a row"));
  EXPECT_THAT(decision.reason, HasSubstr("restart 1 of 10"));
  master.look(at(2ms));
  EXPECT_EQ(starts_, 2);
  EXPECT_FALSE(master.listening()) << "the address is that of the one before";
}

TEST_F(MasterProcessTest, HungMasterThatCannotBeReplacedStays) {
  const SilentListener hung;
  MasterProcess master = make(/*replaceable=*/false);
  master.start(at(0ms));
  announce(hung.address());
  master.look(at(1ms));
  for (int question = 0; question < 3; ++question) EXPECT_THROW(master.status(), Timeout);
  EXPECT_TRUE(runs());
}

TEST_F(MasterProcessTest, EndOfAConnectionIsNoSilence) {
  MasterProcess process = make(/*replaceable=*/true, kPatience);
  process.start(at(0ms));
  {
    const master::Master answers({.service = {.listener = {.name = "master", .secret = kSecret}}});
    announce(answers.address());
    process.look(at(1ms));
    EXPECT_EQ(process.status().state, cluster::JobPhase::kGathering);
  }
  for (int question = 0; question < 3; ++question) EXPECT_THROW(process.status(), PeerLost);
  EXPECT_TRUE(runs()) << "its end will be reported";
}

TEST_F(MasterProcessTest, OneThatNeverListensIsKilled) {
  MasterProcess master = make();
  master.start(at(0ms));
  master.look(at(999ms));
  EXPECT_TRUE(runs());
  master.look(at(1s));
  const Exit exit = ended();
  EXPECT_EQ(exit.signal, SIGKILL);
  master.note_end();
  EXPECT_THAT(master.restart(exit, at(1s)).reason, HasSubstr("did not listen within 1 s"));
}

TEST_F(MasterProcessTest, KilledWhileItStartsIsReplacedUntilTheLimit) {
  MasterProcess master = make();
  auto now = at(0ms);
  master.start(now);
  for (int kill = 1; kill <= 10; ++kill) {
    ::kill(pid_, SIGKILL);
    const Exit exit = ended();
    master.note_end();
    const RestartDecision decision = master.restart(exit, now);
    ASSERT_TRUE(decision.again) << decision.reason;
    EXPECT_THAT(decision.reason, HasSubstr(fmt::format("restart {} of 10", kill)));
    now = decision.at;
    EXPECT_EQ(master.restart_at(), now);
    master.look(now);
    EXPECT_EQ(starts_, kill + 1);
  }
  ::kill(pid_, SIGKILL);
  const Exit exit = ended();
  master.note_end();
  const RestartDecision decision = master.restart(exit, now);
  EXPECT_FALSE(decision.again);
  EXPECT_THAT(decision.reason, HasSubstr("failed 11 times in a row and achieved nothing in between, with 10 restarts"));
}

TEST_F(MasterProcessTest, ProgressGivesBackAllRestarts) {
  MasterProcess master = make();
  auto now = at(0ms);
  master.start(now);
  for (int kill = 0; kill < 30; ++kill) {
    ::kill(pid_, SIGKILL);
    const Exit exit = ended();
    master.note_end();
    const RestartDecision decision = master.restart(exit, now);
    ASSERT_TRUE(decision.again) << decision.reason;
    now = decision.at;
    master.look(now);
    if (kill % 10 == 9) master.note_progress();
  }
}

TEST_F(MasterProcessTest, OneThatEndsByItselfBeforeItCouldBeReachedIsNotTriedAgain) {
  MasterProcess master = make();
  master.start(at(0ms));
  master.note_end();
  const RestartDecision decision = master.restart({.name = "master", .status = 1}, at(1ms));
  EXPECT_FALSE(decision.again);
  EXPECT_THAT(decision.reason, HasSubstr("before it could be reached"));
}

}  // namespace
}  // namespace trireme::launch
