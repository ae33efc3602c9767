#include "cli/remote/ssh.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "cli/remote/build_id.h"

namespace trireme::cli {
namespace {

/// For the shell at the other end.
std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char letter : word) result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

struct PipeEnds {
  FileDescriptor read;
  FileDescriptor write;
};

PipeEnds make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("cannot make a pipe for ssh");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Returns false at the end of the stream.
bool read_some(int descriptor, std::string& to) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  if (got > 0) to.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

}  // namespace

std::string file_id(const std::string& path) {
  try {
    Sha256 hash;
    hash.add(as_bytes(read_file(path)));
    return hash.hex();
  } catch (const IoError&) {
    return "missing";
  }
}

std::vector<std::string> ssh_words(const std::string& host, const std::string& trireme) {
  std::vector<std::string> words;
  const char* given = std::getenv("TRIREME_SSH");
  std::istringstream parts(given == nullptr || *given == 0 ? "ssh" : given);
  for (std::string word; parts >> word;) words.push_back(word);
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=12"}) {
    words.insert(words.end(), {"-o", option});
  }
  words.insert(words.end(), {"-T", host, "--", quoted(trireme) + " agent"});
  return words;
}

SshOutcome run_ssh(const std::vector<std::string>& words, const std::string& input, Deadline deadline) {
  PipeEnds in = make_pipe();
  PipeEnds out = make_pipe();
  PipeEnds err = make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.read.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.write.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, err.write.get(), 2);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // exec only reads
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int problem = ::posix_spawnp(&pid, argv.front(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) {
    errno = problem;
    fail_errno("cannot start '" + words.front() + "'");
  }
  in.read.close();
  out.write.close();
  err.write.close();
  [[maybe_unused]] const ssize_t written = ::write(in.write.get(), input.data(), input.size());
  in.write.close();
  SshOutcome outcome;
  bool out_open = true;
  bool err_open = true;
  while ((out_open || err_open) && !deadline.passed()) {
    std::array<pollfd, 2> ready{{{.fd = out_open ? out.read.get() : -1, .events = POLLIN, .revents = 0},
                                 {.fd = err_open ? err.read.get() : -1, .events = POLLIN, .revents = 0}}};
    if (::poll(ready.data(), ready.size(), 100) <= 0) continue;
    if (ready[0].revents != 0) out_open = read_some(out.read.get(), outcome.out);
    if (ready[1].revents != 0) err_open = read_some(err.read.get(), outcome.err);
  }
  if (out_open || err_open) {
    ::kill(pid, SIGKILL);
    outcome.err += fmt::format("no answer within {:.0f} s", seconds(deadline.allowed()));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace trireme::cli
