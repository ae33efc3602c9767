// What a confined process can still do, and what not. Each is a process of its own: there is no way back.
#include "cli/model/confinement.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "tests/support/processes.h"
#include "tests/support/temp_folder.h"

namespace trireme::cli {
namespace {

constexpr Confinement kSmall{.memory_bytes = 256u << 20, .file_bytes = 1u << 20, .cpu = std::chrono::seconds(60)};

/// Runs `body` in a confined process and returns its exit status.
int confined(const Confinement& confinement, const std::function<void()>& body) {
  Process process([&](Talk& /*test*/) {
    ASSERT_TRUE(confine_this_process(confinement));
    body();
  });
  return process.wait();
}

TEST(Confinement, ComputesReadsAndWrites) {
  const TempFolder folder;
  folder.write("in", "abc");
  EXPECT_EQ(confined(kSmall,
                     [&] {
                       write_file_atomically(folder / "out", as_bytes(read_file(folder / "in")));
                       int sum = 0;
                       std::thread([&] { sum = 7; }).join();
                       EXPECT_EQ(sum, 7);
                     }),
            0);
  EXPECT_EQ(read_file(folder / "out"), "abc");
}

TEST(Confinement, NoProgramsProcessesOrSockets) {
  EXPECT_EQ(confined(kSmall,
                     [] {
                       EXPECT_EQ(::fork(), -1);
                       EXPECT_EQ(errno, EPERM);
                       EXPECT_EQ(::execl("/bin/true", "true", nullptr), -1);
                       EXPECT_EQ(errno, EPERM);
                       for (const int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK}) {
                         EXPECT_EQ(::socket(family, SOCK_STREAM, 0), -1);
                         EXPECT_EQ(errno, EPERM);
                       }
                       EXPECT_NE(std::system("true"), 0);
                       EXPECT_EQ(::kill(::getppid(), 0), -1);
                       EXPECT_EQ(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
                     }),
            0);
}

TEST(Confinement, LimitsHold) {
  const TempFolder folder;
  EXPECT_EQ(confined(kSmall,
                     [&] {
                       EXPECT_EQ(std::malloc(std::size_t{1} << 30), nullptr) << "memory";
                       std::ofstream file(folder / "large");
                       file << std::string(2u << 20, 'x') << std::flush;
                       EXPECT_FALSE(file) << "a file";
                       std::vector<FileDescriptor> files;
                       for (int i = 0; i < 100; ++i) files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
                       EXPECT_FALSE(files.back()) << "open files";
                     }),
            0);
}

TEST(Confinement, TimeOfTheProcessorEnds) {
  Confinement short_time = kSmall;
  short_time.cpu = std::chrono::seconds(1);
  EXPECT_EQ(confined(short_time,
                     [] {
                       std::atomic<unsigned> turns{0};
                       for (;;) ++turns;
                     }),
            128 + SIGXCPU);
}

}  // namespace
}  // namespace trireme::cli
