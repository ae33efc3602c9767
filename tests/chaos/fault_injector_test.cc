// Faults, done to a real process.

#include "chaos/fault_injector.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "chaos/connections.h"
#include "chaos/job_processes.h"
#include "launch/supervisor.h"
#include "tests/support/eventually.h"

namespace trireme::chaos {
namespace {

using namespace std::string_view_literals;

TEST(JobProcesses, AreFoundByEnvironmentAndTheMasterByItsCommand) {
  EXPECT_EQ(identify(7, "/bin/trireme-worker\0{}\0"sv, "A=b\0TRIREME_ROLE=worker\0TRIREME_RANK=3\0"sv),
            (JobProcess{.pid = 7, .role = FaultRole::kWorker, .slot = 3}));
  EXPECT_EQ(identify(7, "/bin/trireme\0serve\0"sv, "TRIREME_RANK=1\0TRIREME_ROLE=server\0"sv),
            (JobProcess{.pid = 7, .role = FaultRole::kServer, .slot = 1}));
  EXPECT_EQ(identify(8, "/bin/trireme\0master\0--workers\0"sv, ""), (JobProcess{.pid = 8, .role = FaultRole::kMaster}));
  EXPECT_EQ(identify(9, "/bin/trireme\0train\0"sv, "XTRIREME_ROLE=worker\0"sv), std::nullopt) << "the guard";
}

TEST(JobProcesses, UsageCountsFilesAndSockets) {
  const auto before = usage_of(::getpid());
  ASSERT_TRUE(before);
  const FileDescriptor file(::open("/dev/null", 0));
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const auto after = usage_of(::getpid());
  EXPECT_EQ(after->files, before->files + 2);
  EXPECT_EQ(after->sockets, before->sockets + 1);
  EXPECT_GE(after->threads, 1u);
  EXPECT_GT(after->resident_bytes, 1u << 20);
}

/// 'T' for stopped, 'S' for asleep; ' ' when gone.
char state_of(pid_t pid) {
  const std::string stat = content_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t at = stat.rfind(')');
  return at == std::string::npos ? ' ' : stat.at(at + 2);
}

class FaultInjectorTest : public ::testing::Test {
 protected:
  launch::Supervisor supervisor_;
  const pid_t victim_ = supervisor_.start({.name = "victim", .argv = {"sleep", "60"}});
};

TEST_F(FaultInjectorTest, StoppedProcessContinuesAfterStopFor) {
  FaultInjector injector({.stop_for = 50ms});
  injector.inject(FaultKind::kStop, victim_);
  EXPECT_TRUE(injector.busy());
  EXPECT_TRUE(eventually([&] { return state_of(victim_) == 'T'; }));
  EXPECT_TRUE(eventually([&] {
    injector.tick();
    return !injector.busy();
  }));
  EXPECT_TRUE(eventually([&] { return state_of(victim_) != 'T'; }));
}

TEST_F(FaultInjectorTest, DestructorContinuesStoppedProcesses) {
  {
    FaultInjector injector({.stop_for = 1h});
    injector.inject(FaultKind::kSlow, victim_);
  }
  EXPECT_TRUE(eventually([&] { return state_of(victim_) != 'T'; }));
}

TEST_F(FaultInjectorTest, AKilledProcessDies) {
  FaultInjector injector({});
  injector.inject(FaultKind::kKill, victim_);
  const auto ends = supervisor_.wait(Deadline::in(10s));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_THAT(injector.inject(FaultKind::kKill, victim_), ::testing::HasSubstr("ended by itself"));
}

/// A connection of this process to itself.
struct Loopback {
  Loopback() {
    const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener.get(), 1);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    here = FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0));
    ::connect(here.get(), reinterpret_cast<sockaddr*>(&address), size);
    there = FileDescriptor(::accept(listener.get(), nullptr, nullptr));
  }
  FileDescriptor here;
  FileDescriptor there;
};

TEST(Connections, CutSucceedsOrReportsWhyNot) {
  const Loopback connection;
  try {
    check_cutting_is_possible();
  } catch (const IoError& problem) {
    EXPECT_THAT(problem.what(), ::testing::HasSubstr("CAP_NET_ADMIN"));
    EXPECT_THROW(cut_connections(::getpid()), IoError);
    return;
  }
  EXPECT_GE(cut_connections(::getpid()), 1u);
  char byte = 0;
  EXPECT_EQ(::recv(connection.here.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_THAT(errno, ::testing::AnyOf(ECONNABORTED, ECONNRESET));  // which end was cut first is not said
}

}  // namespace
}  // namespace trireme::chaos
