// The end of ssh on another host: starts one process, passes signals on to it, and ends it when the connection ends.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/threads.h"
#include "cli/commands/commands.h"
#include "cli/remote/build_id.h"
#include "cli/remote/ssh.h"
#include "launch/supervisor.h"

namespace trireme::cli {
namespace {

constexpr std::size_t kLongestOrder = std::size_t{16} << 20;
constexpr auto kGrace = 5s;

/// The lines of standard input, as they come.
class InputLines {
 public:
  /// Returns false at the end of the stream.
  bool read_more() {
    std::array<char, 65536> buffer;
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got > 0) text_.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
  }

  std::optional<std::string> next() {
    const auto end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

  std::size_t size() const { return text_.size(); }

 private:
  std::string text_;
};

AgentOrder read_order(InputLines& input) {
  const Deadline deadline = Deadline::in(30s);
  for (;;) {
    if (const auto line = input.next()) return nlohmann::json::parse(*line).get<AgentOrder>();
    pollfd ready{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 100) > 0 && !input.read_more()) break;
    if (deadline.passed() || input.size() > kLongestOrder) break;
  }
  fail<InvalidArgument>("nobody said what to do: 'trireme agent' is started by 'trireme train --hosts'");
}

/// Why this host cannot take part; empty if it can.
std::string find_problem(const AgentOrder& order) {
  for (const auto& [path, id] : order.ids) {
    const std::string here = file_id(path);
    if (here == "missing") return fmt::format("there is no {} here: install the same build at the same place", path);
    if (here != id) return fmt::format("{} is another build here than on the launcher's host", path);
  }
  return "";
}

AgentAnswer answer(const AgentOrder& order) {
  AgentAnswer result{.problem = find_problem(order), .seen = {}, .launcher = {}, .cores = available_cores()};
  for (const std::string& file : order.look_for) {
    if (::access(file.c_str(), F_OK) == 0) result.seen.push_back(file);
  }
  if (const char* connection = std::getenv("SSH_CONNECTION"); connection != nullptr) {
    const std::string text = connection;
    result.launcher = text.substr(0, text.find(' '));
  }
  return result;
}

/// Returns how the process ended, as a shell says it.
int run_process(const AgentOrder& order, InputLines& input) {
  if (const std::string problem = find_problem(order); !problem.empty()) fail<InvalidArgument>("{}", problem);
  if (!order.folder.empty()) [[maybe_unused]]
    const int moved = ::chdir(order.folder.c_str());
  ::fcntl(STDIN_FILENO, F_SETFL, ::fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
  launch::Supervisor supervisor;
  const pid_t pid = supervisor.start({.name = "process", .argv = order.argv, .env = order.env});
  Deadline silent = Deadline::in(kAgentSilence);
  bool listening = true;
  int status = 1;
  while (supervisor.alive() > 0) {
    for (const launch::Exit& exit : supervisor.wait(Deadline::in(100ms), listening ? STDIN_FILENO : -1)) {
      status = exit.signal != 0 ? 128 + exit.signal : exit.status;
    }
    if (!listening) continue;
    pollfd ready{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const bool readable = ::poll(&ready, 1, 0) > 0;
    const bool ended = readable && !input.read_more();
    if (readable && !ended) silent = Deadline::in(kAgentSilence);
    while (const auto line = input.next()) {
      if (const int signal = std::atoi(line->c_str()); signal > 0) ::kill(-pid, signal);
    }
    if (!ended && !silent.passed()) continue;
    fmt::print(stderr, "trireme agent: {}: ending the process\n",
               ended ? "the connection to the launcher has ended" : "the launcher was not heard of for 60 s");
    std::fflush(stderr);
    listening = false;
    supervisor.stop(kGrace);
  }
  return status;
}

int agent() {
  ::signal(SIGHUP, SIG_IGN);  // the end of standard input says the same, and later signals may come
  InputLines input;
  const AgentOrder order = read_order(input);
  if (!order.argv.empty()) return run_process(order, input);
  fmt::print("{}\n", nlohmann::json(answer(order)).dump());
  return 0;
}

}  // namespace

void add_agent(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("agent", "run one process of a job on this host; started over ssh by --hosts");
  command->callback([&action] { action = [] { return agent(); }; });
}

}  // namespace trireme::cli
