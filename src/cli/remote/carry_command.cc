// The local process that stands for one on another host: it owns the ssh, passes signals on, and ends as the other
// does.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/remote/build_id.h"
#include "cli/remote/ssh.h"
#include "cli/start/run_program.h"
#include "cluster/resolvers/resolvers.h"
#include "launch/companion.h"

namespace trireme::cli {
namespace {

struct CarryFlags {
  std::string map;
  std::string slot;  ///< "worker 3"
  std::vector<std::string> program;
};

/// Where our slot is now.
struct SlotHost {
  std::string host;
  bool sees_folder = true;
};

/// By which numerical libraries choose threads and kernels: with another choice a host computes other last bits.
bool decides_bits(const std::string& name) {
  constexpr std::array kPrefixes{"OMP_",  "KMP_",    "OPENBLAS_", "MKL_",    "BLIS_",
                                 "DNNL_", "ONEDNN_", "ATEN_",     "CUBLAS_", "NVIDIA_TF32_OVERRIDE"};
  return name.ends_with("_NUM_THREADS") ||
         std::ranges::any_of(kPrefixes, [&](const char* prefix) { return name.starts_with(prefix); });
}

/// What a process of the job gets from its launcher; the rest is its own host's.
std::map<std::string, std::string> variables_to_carry(bool sees_folder) {
  std::map<std::string, std::string> carried;
  for (const auto& [name, value] : cluster::own_variables()) {
    if (name == "TRIREME_SSH" || (!name.starts_with("TRIREME_") && !decides_bits(name))) continue;
    if (!sees_folder && (name == "TRIREME_RUN_DIR" || name == "TRIREME_STORE")) continue;
    carried[name] = value;
  }
  return carried;
}

AgentOrder order_of(const CarryFlags& flags, bool sees_folder) {
  AgentOrder order{.argv = flags.program,
                   .env = variables_to_carry(sees_folder),
                   .folder = std::filesystem::current_path().string(),
                   .ids = {},
                   .look_for = {}};
  for (const std::string& path : {launch::companion_program("trireme"), flags.program.front()}) {
    order.ids[path] = file_id(path);
  }
  return order;
}

/// nullopt if it cannot be read: then everything stays as it is.
std::optional<HostMap> read_map(const CarryFlags& flags) {
  try {
    return nlohmann::json::parse(read_file(flags.map)).get<HostMap>();
  } catch (const IoError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

/// nullopt if our slot has no host.
std::optional<SlotHost> host_in(const HostMap& map, const CarryFlags& flags) {
  const auto found = map.hosts.find(flags.slot);
  if (found == map.hosts.end()) return std::nullopt;
  return SlotHost{.host = found->second, .sees_folder = std::ranges::count(map.without_folder, found->second) == 0};
}

/// Whether our slot has another host than `host` now, or none.
bool has_moved(const CarryFlags& flags, const std::string& host) {
  const auto map = read_map(flags);
  if (!map) return false;
  const auto now = host_in(*map, flags);
  return !now || now->host != host;
}

/// Signals as something to wait for.
FileDescriptor watch_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  FileDescriptor descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor) fail_errno("cannot wait for signals");
  return descriptor;
}

int next_signal(int descriptor) {
  signalfd_siginfo info{};
  return ::read(descriptor, &info, sizeof info) == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo)
                                                                                     : 0;
}

class SshProcess {
 public:
  SshProcess(const std::vector<std::string>& words, const std::string& first_line) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("cannot make a pipe for ssh");
    const FileDescriptor theirs(ends[0]);
    input_ = FileDescriptor(ends[1]);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // exec only reads
    argv.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      sigset_t none;
      ::sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::signal(SIGINT, SIG_IGN);  // of a terminal: it is for the launcher
      ::dup2(theirs.get(), STDIN_FILENO);
      ::execvp(argv.front(), argv.data());
      ::_exit(255);
    }
    if (pid_ < 0) fail_errno("cannot start ssh");
    say(first_line);
  }

  ~SshProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  SshProcess(const SshProcess&) = delete;
  SshProcess& operator=(const SshProcess&) = delete;

  void say(const std::string& line) {
    const std::string text = line + "\n";
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t now = ::write(input_.get(), text.data() + sent, text.size() - sent);
      if (now < 0 && errno != EINTR) return;  // it has ended, or is about to
      if (now > 0) sent += static_cast<std::size_t>(now);
    }
  }

  /// Returns how it ended, as a shell says it; nullopt if it runs.
  std::optional<int> ended() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor input_;
};

/// Ends this process as the one that it stood for: by the same signal, so that whoever watches sees it.
[[noreturn]] void end_as(int status, const std::string& host) {
  constexpr int kSshFailed = 255;
  if (status == kSshFailed) fmt::print(stderr, "trireme carry: the connection to host {} failed or has ended\n", host);
  std::fflush(nullptr);
  const int signal = status == kSshFailed ? SIGKILL : status > 128 && status < 128 + NSIG ? status - 128 : 0;
  if (signal == 0) ::_exit(status);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(signal);
  ::_exit(status);
}

/// Waits for a host; nullopt if it was told to end, or the job is over, before there was one.
std::optional<SlotHost> await_host(const CarryFlags& flags, int signals) {
  bool told = false;
  for (;;) {
    const auto map = read_map(flags);
    if (map) {
      if (auto host = host_in(*map, flags)) return host;
    }
    if (!std::exchange(told, true)) fmt::print(stderr, "trireme carry: no host has room for {} now\n", flags.slot);
    pollfd waiting{.fd = signals, .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, 200);
    if (const int signal = next_signal(signals); signal == SIGTERM || signal == SIGINT) return std::nullopt;
    if (map && map->over) return std::nullopt;
  }
}

int carry(const CarryFlags& flags) {
  const FileDescriptor signals = watch_signals();
  for (;;) {
    const auto place = await_host(flags, signals.get());
    if (!place) return 0;
    SshProcess ssh(ssh_words(place->host, launch::companion_program("trireme")),
                   nlohmann::json(order_of(flags, place->sees_folder)).dump());
    Deadline next_word = Deadline::in(kAgentHeartbeat);
    bool moves = false;  // the slot has another host now
    std::optional<int> status;
    while (!(status = ssh.ended())) {
      pollfd waiting{.fd = signals.get(), .events = POLLIN, .revents = 0};
      ::poll(&waiting, 1, 50);
      if (const int signal = next_signal(signals.get()); signal != 0) ssh.say(std::to_string(signal));
      if (!next_word.passed()) continue;
      next_word = Deadline::in(kAgentHeartbeat);
      ssh.say(".");
      if (!moves && has_moved(flags, place->host)) {
        moves = true;
        fmt::print(stderr, "trireme carry: host {} is to take {} no longer\n", place->host, flags.slot);
        ssh.say(std::to_string(SIGTERM));  // it hands over its work and ends
      }
    }
    if (!moves) end_as(*status, place->host);
  }
}

}  // namespace

void add_carry(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("carry", "stand for a process on another host; started by --hosts");
  auto flags = std::make_shared<CarryFlags>();
  command->add_option("--map", flags->map, "file that says which host has which process; asked again and again")
      ->required();
  command->add_option("--slot", flags->slot, "which process this is: 'worker 3'")->required();
  declare_program(*command, flags->program);
  command->callback([flags, &action] { action = [flags] { return carry(*flags); }; });
}

}  // namespace trireme::cli
