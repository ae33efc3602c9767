#include "launch/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "launch/supervisor.h"
#include "tests/launch/testing.h"

namespace trireme::launch {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// What `spec` prints until it ends.
std::string output_of(ProcessSpec spec) {
  TempFolder folder;
  spec.log = folder / "log";
  Supervisor supervisor;
  supervisor.start(spec);
  supervisor.wait(Deadline::in(10s));
  EXPECT_EQ(supervisor.worst_status(), 0);
  return content_of(spec.log);
}

std::string start_error(const std::string& program) {
  Supervisor supervisor;
  try {
    supervisor.start({.name = "worker 0", .argv = {program}});
  } catch (const IoError& error) {
    EXPECT_EQ(supervisor.alive(), 0U);
    return error.what();
  }
  return "no error";
}

TEST(Process, StdoutAndStderrAreAppendedToTheLog) {
  TempFolder folder;
  std::ofstream(folder / "log") << "before\n";
  Supervisor supervisor;
  supervisor.start(shell("echo out; echo err >&2", folder / "log"));
  supervisor.wait(Deadline::in(10s));
  EXPECT_EQ(content_of(folder / "log"), "before\nout\nerr\n");
}

TEST(Process, AShieldedOneBeginsWithTheSignalsOfASchedulerIgnored) {
  ProcessSpec spec = shell("kill -TERM $$; kill -INT $$; kill -HUP $$; kill -USR1 $$; echo still here");
  spec.shielded = true;
  EXPECT_EQ(output_of(spec), "still here\n");
}

TEST(Process, EnvironmentIsInheritedAndReplaced) {
  ASSERT_EQ(::setenv("TRIREME_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(::setenv("TRIREME_TEST_REPLACED", "old", 1), 0);
  ProcessSpec spec = shell("echo $TRIREME_TEST_KEPT $TRIREME_TEST_REPLACED $TRIREME_TEST_ADDED");
  spec.env = {{"TRIREME_TEST_REPLACED", "new"}, {"TRIREME_TEST_ADDED", "a=b c"}};
  EXPECT_EQ(output_of(spec), "kept new a=b c\n");
  ::unsetenv("TRIREME_TEST_KEPT");
  ::unsetenv("TRIREME_TEST_REPLACED");
}

TEST(Process, ProgramsAreLookedUpInPath) {
  EXPECT_EQ(output_of({.name = "w", .argv = {"echo", "two words", ""}}), "two words \n");
}

TEST(Process, InheritsNoDescriptorOfOurs) {
  const FileDescriptor low(::open("/dev/null", O_RDONLY));  // not close-on-exec, on purpose
  const FileDescriptor high(::fcntl(low.get(), F_DUPFD, 70));
  ASSERT_TRUE(low && high);
  const ProcessSpec spec = shell(
      "n=0; while [ $n -lt 200 ]; do [ -e /proc/self/fd/$n ] && echo $n; n=$((n+1)); done; readlink /proc/self/fd/0");
  EXPECT_EQ(output_of(spec), "0\n1\n2\n/dev/null\n");
}

TEST(Process, WorksWhenOurStandardDescriptorsAreClosed) {
  const FileDescriptor saved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10));
  ::close(STDIN_FILENO);  // the next descriptor that is opened gets this number
  const std::string output = output_of(shell("readlink /proc/self/fd/0; echo out"));
  if (saved) ::dup2(saved.get(), STDIN_FILENO);
  EXPECT_EQ(output, "/dev/null\nout\n");
}

TEST(Process, StartsWithCleanSignals) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto pipe_before = ::signal(SIGPIPE, SIG_IGN);
  const std::string output = output_of({.name = "w", .argv = {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}});
  ::signal(SIGPIPE, pipe_before);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  unsigned long long blocked_bits = ~0ULL;
  unsigned long long ignored_bits = ~0ULL;
  ASSERT_EQ(std::sscanf(output.c_str(), "SigBlk: %llx SigIgn: %llx", &blocked_bits, &ignored_bits), 2) << output;
  // Signals 32 and 33 are glibc's own: no program can set them, so whatever started the tests decides about them.
  constexpr unsigned long long kGlibcOwn = 0x180000000ULL;
  EXPECT_EQ(blocked_bits & ~kGlibcOwn, 0u);
  EXPECT_EQ(ignored_bits & ~kGlibcOwn, 0u);
}

TEST(Process, LeadsItsOwnGroup) {
  EXPECT_EQ(output_of(shell("[ $(cut -d' ' -f5 /proc/$$/stat) = $$ ] && echo leader")), "leader\n");
}

TEST(Process, SaysWhyAProgramCannotStart) {
  EXPECT_EQ(start_error("./my_program"), "cannot start './my_program': No such file or directory");
  EXPECT_EQ(start_error("trireme-no-such-program"),
            "cannot start 'trireme-no-such-program': not found in PATH; a program in this folder is "
            "'./trireme-no-such-program'");

  TempFolder folder;
  const std::string script = folder / "script";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  EXPECT_THAT(start_error(script), EndsWith("Permission denied; make it executable: chmod +x"));
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  EXPECT_THAT(start_error(script), EndsWith("the interpreter in its first line is missing"));
  std::ofstream(script) << "echo no first line\n";
  EXPECT_THAT(start_error(script), HasSubstr("#!/bin/sh"));
}

TEST(Process, ProgramsAreCheckedBeforeAnythingStarts) {
  EXPECT_NO_THROW(check_program("sh"));
  EXPECT_NO_THROW(check_program("/bin/sh"));
  EXPECT_THROW(check_program("./my_program"), InvalidArgument);
  EXPECT_THROW(check_program("trireme-no-such-program"), InvalidArgument);
  TempFolder folder;
  EXPECT_THROW(check_program(folder / ""), InvalidArgument);
  std::ofstream(folder / "script") << "#!/bin/sh\n";
  EXPECT_THROW(check_program(folder / "script"), InvalidArgument) << "not executable";
}

TEST(Process, SaysThatALogCannotBeOpened) {
  Supervisor supervisor;
  try {
    supervisor.start(shell("exit 0", "/no/such/folder/log"));
    FAIL() << "started without a log";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), StartsWith("cannot open log /no/such/folder/log: No such file"));
  }
}

TEST(Process, AnEmptyCommandIsRefused) {
  Supervisor supervisor;
  EXPECT_THROW(supervisor.start({.name = "worker 0", .argv = {}}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::launch
