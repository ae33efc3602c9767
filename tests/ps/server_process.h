#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "ps/replica_link.h"
#include "ps/server.h"
#include "tests/ps/survival.h"
#include "tests/support/eventually.h"

namespace trireme::ps {

/// Threads that were joined may take a moment to go; a process that forks must have none.
inline void await_single_thread() {
#if !defined(__SANITIZE_THREAD__)  // it has a thread of its own
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  EXPECT_TRUE(eventually([&] { return threads() == 1; })) << "somebody leaked a thread";
#endif
}

/// A server as a process that kills itself.
struct ServerProcess {
  pid_t pid = 0;
  net::Address address;

  /// Dies when it passes `point` for the `count`th time; 0 = never. Before this process has threads.
  explicit ServerProcess(CrashPoint point, int count) {
    await_single_thread();
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    pid = ::fork();
    if (pid == 0) {
      std::atomic<int> left = count;
      ServerOptions options = server_options();
      options.on_point = [&](CrashPoint at) {
        if (at == point && count > 0 && --left == 0) ::kill(::getpid(), SIGKILL);
      };
      const Server server(options);
      const std::string text = net::encode_message(server.address());
      if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char buffer[1024];
    const auto got = ::read(ends[0], buffer, sizeof(buffer));
    ::close(ends[0]);
    if (got <= 0) throw std::runtime_error("a server process died at once");
    address = net::decode_message<net::Address>(as_bytes(std::string_view(buffer, static_cast<std::size_t>(got))));
  }
  ~ServerProcess() {
    if (pid == 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  bool dead() {
    if (pid == 0 || ::waitpid(pid, nullptr, WNOHANG) != pid) return false;
    pid = 0;
    return true;
  }
};

}  // namespace trireme::ps
