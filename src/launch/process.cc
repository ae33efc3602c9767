#include "launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/file.h"
#include "launch/descriptors.h"
#include "launch/guard.h"
#include "launch/signals_blocked.h"

namespace trireme::launch {
namespace {

constexpr auto kExecTime = 30s;  // a program on a file system that hangs must not block us

/// Returns the inherited environment overridden by `added`, as NAME=value. It is passed on as a whole; nothing here
/// reads settings from it.
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> merged;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!added.contains(std::string(text.substr(0, text.find('='))))) merged.emplace_back(text);
  }
  for (const auto& [name, value] : added) merged.push_back(name + "=" + value);
  return merged;
}

/// Returns the path of `program`: itself if it has a '/', else the first match in PATH.
std::string find_program(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return program;
  constexpr std::string_view kPath = "PATH=";
  for (const std::string& entry : environment) {
    if (!entry.starts_with(kPath)) continue;
    std::string_view folders = std::string_view(entry).substr(kPath.size());
    while (!folders.empty()) {
      const std::string_view folder = folders.substr(0, folders.find(':'));
      folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
      const std::string candidate = folder.empty() ? program : fmt::format("{}/{}", folder, program);
      if (::access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate)) return candidate;
    }
  }
  fail<IoError>("cannot start '{}': not found in PATH; a program in this folder is './{}'", program, program);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));  // exec only reads
  pointers.push_back(nullptr);
  return pointers;
}

FileDescriptor open_or_fail(const std::string& path, int flags, const std::string& what) {
  FileDescriptor file = above_standard(FileDescriptor(::open(path.c_str(), flags | O_CLOEXEC, 0644)));
  if (!file) fail_errno("cannot open " + what + " " + path);
  return file;
}

/// All that the child needs, prepared before the fork: after it the child must neither allocate nor take a lock,
/// because another thread of the parent may have held that lock at the moment of the fork.
struct Plan {
  explicit Plan(const ProcessSpec& spec)
      : environment(merged_environment(spec.env)),
        program(find_program(spec.argv.front(), environment)),
        argv(pointers_to(spec.argv)),
        envp(pointers_to(environment)),
        input(open_or_fail("/dev/null", O_RDONLY, "device")),
        shielded(spec.shielded) {
    if (!spec.log.empty()) log = open_or_fail(spec.log.string(), O_WRONLY | O_CREAT | O_APPEND, "log");
  }

  std::vector<std::string> environment;
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> envp;
  FileDescriptor input;
  bool shielded;
  FileDescriptor log;  // none: stdout and stderr are inherited
  pid_t parent = ::getpid();
};

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &action, nullptr);  // fails for some: fine
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

/// Runs in the child, from fork to exec: only async-signal-safe calls. On failure writes errno to `report`.
[[noreturn]] void become(const Plan& plan, int guard, int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(1);  // the parent died before the line above took effect

  bool ready = ::dup2(plan.input.get(), STDIN_FILENO) >= 0;
  if (plan.log) {
    ready = ready && ::dup2(plan.log.get(), STDOUT_FILENO) >= 0 && ::dup2(plan.log.get(), STDERR_FILENO) >= 0;
  }
  if (ready) {
    close_on_exec_from(STDERR_FILENO + 1);
    Guard::announce(guard, ::getpid());
    reset_signals();
    if (plan.shielded) {
      for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::signal(signal, SIG_IGN);
    }
    ::execve(plan.program.c_str(), plan.argv.data(), plan.envp.data());
  }
  const int code = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &code, sizeof code);
  ::_exit(127);
}

/// Returns why the child could not execute the program, or 0. Its end of the pipe closes when exec succeeds.
int exec_error(int report) {
  const Deadline deadline = Deadline::in(kExecTime);
  pollfd ready{.fd = report, .events = POLLIN, .revents = 0};
  while (::poll(&ready, 1, milliseconds_left(deadline)) <= 0) {
    if (deadline.passed()) return ETIMEDOUT;
  }
  int code = 0;
  ssize_t got = 0;
  do {
    got = ::read(report, &code, sizeof code);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof code) ? code : 0;
}

std::string advice(int code, const std::string& program) {
  if (code == EACCES) return "; make it executable: chmod +x";
  if (code == ENOENT && std::filesystem::exists(program)) return "; the interpreter in its first line is missing";
  if (code == ENOEXEC) return "; a script needs a first line like #!/bin/sh";
  return "";
}

}  // namespace

void check_program(const std::string& program) {
  std::string path;
  try {
    path = find_program(program, merged_environment({}));
  } catch (const IoError& problem) {
    fail<InvalidArgument>("{}", problem.what());
  }
  if (std::filesystem::is_directory(path)) fail<InvalidArgument>("cannot start '{}': it is a folder", program);
  if (::access(path.c_str(), X_OK) == 0) return;
  const int code = errno;
  fail<InvalidArgument>("cannot start '{}': {}{}", program, std::generic_category().message(code), advice(code, path));
}

pid_t spawn(const ProcessSpec& spec, int guard) {
  if (spec.argv.empty()) fail<InvalidArgument>("cannot start {}: no program was given", spec.name);
  const Plan plan(spec);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("cannot make a pipe to start " + spec.name);
  const FileDescriptor report_in = above_standard(FileDescriptor(ends[0]));
  FileDescriptor report_out = above_standard(FileDescriptor(ends[1]));
  if (!report_in || !report_out) fail_errno("cannot make a pipe to start " + spec.name);

  pid_t pid = -1;
  {
    const SignalsBlocked blocked;
    pid = ::fork();
    if (pid == 0) become(plan, guard, report_out.get());
  }
  if (pid < 0) fail_errno("cannot start " + spec.name);
  ::setpgid(pid, pid);  // so does the child: the group exists before anyone signals it, whichever is first
  report_out.close();

  if (const int code = exec_error(report_in.get()); code != 0) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, code == ETIMEDOUT ? WNOHANG : 0);  // do not wait for one that hangs in the kernel
    Guard::announce(guard, -pid);
    errno = code;
    try {
      fail_errno(fmt::format("cannot start '{}'", spec.argv.front()));
    } catch (const IoError& error) {
      throw IoError(error.what() + advice(code, plan.program));
    }
  }
  return pid;
}

}  // namespace trireme::launch
