#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "store/etcd_client.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace trireme {

struct EtcdOptions {
  std::size_t members = 1;
  std::chrono::milliseconds heartbeat = 50ms;
  std::chrono::milliseconds election_timeout = 500ms;
  bool tls = false;  ///< clients come over TLS, with a certificate (see certificate())
};

/// A real etcd on loopback, for a test: in a folder of its own, at ports that were free. Killed at the end, by pid.
class EtcdCluster {
 public:
  explicit EtcdCluster(const EtcdOptions& options = {}) : options_(options) {
    for (int attempt = 1;; ++attempt) {
      try {
        start();
        break;
      } catch (const Error&) {  // somebody took a port between our looking and etcd's listening
        for (std::size_t i = 0; i < members_.size(); ++i) kill(i);
        if (attempt == 5) throw;
      }
    }
  }
  ~EtcdCluster() {
    for (std::size_t i = 0; i < members_.size(); ++i) kill(i);
  }
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  /// Where clients find it: "etcd://127.0.0.1:4711,127.0.0.1:4712/job".
  std::string location(const std::string& job) const {
    std::string text = options_.tls ? "etcds://" : "etcd://";
    for (const Member& member : members_)
      text += fmt::format("{}127.0.0.1:{}", &member == &members_[0] ? "" : ",", member.port);
    return text + "/" + job;
  }
  std::vector<net::Address> addresses() const {
    std::vector<net::Address> all;
    for (const Member& member : members_) all.push_back({.host = "127.0.0.1", .port = member.port});
    return all;
  }

  /// With TLS: a certificate and its key, which serve etcd and its clients alike and vouch for themselves.
  std::filesystem::path certificate() const { return *folder_ / "certificate.pem"; }
  std::filesystem::path key() const { return *folder_ / "key.pem"; }

  store::EtcdAccess access() const {
    store::EtcdAccess access{.members = addresses()};
    if (options_.tls) {
      access.tls = net::HttpTls{.ca_file = certificate(), .certificate_file = certificate(), .key_file = key()};
    }
    return access;
  }

  void kill(std::size_t member) {
    const pid_t pid = std::exchange(members_[member].pid, -1);
    if (pid < 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void stop(std::size_t member) const {
    ::kill(members_[member].pid, SIGSTOP);
    ::waitpid(members_[member].pid, nullptr, WUNTRACED);
  }
  void resume(std::size_t member) const { ::kill(members_[member].pid, SIGCONT); }

  /// Starts a member that was killed, with what it had on disk.
  void restart(std::size_t member) { members_[member].pid = spawn(member); }

  /// Waits until the member answers by itself. Throws IoError with the end of its log.
  void wait_ready(std::size_t member) {
    store::EtcdAccess only = access();
    only.members = {addresses()[member]};
    store::EtcdClient client(only);
    for (const Deadline deadline = Deadline::in(15s);;) {
      try {
        client.get("ready?", Deadline::in(200ms));
        return;
      } catch (const Error& problem) {
        check_runs(member, problem, deadline);
      }
    }
  }

 private:
  struct Member {
    std::uint16_t port = 0;
    std::uint16_t peer_port = 0;
    pid_t pid = -1;
  };

  void start() {
    members_.assign(options_.members, {});
    std::vector<FileDescriptor> held;  // until all are chosen, so that no two are the same
    for (Member& member : members_) {
      member.port = free_port(held);
      member.peer_port = free_port(held);
    }
    held.clear();
    folder_ = std::make_unique<TempFolder>();
    if (options_.tls) make_certificate();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      members_[i].pid = spawn(i);
      if (i + 1 < members_.size()) wait_for_peers(i);
    }
    for (std::size_t i = 0; i < members_.size(); ++i) wait_ready(i);
  }

  void make_certificate() const {
    const std::string command = fmt::format(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=trireme-test "
        "-addext subjectAltName=IP:127.0.0.1 -out {} -keyout {} 2>/dev/null",
        certificate().string(), key().string());
    if (std::system(command.c_str()) != 0) fail<IoError>("openssl makes no certificate: is the program installed?");
  }

  /// Waits until the member talks to other members. Those that start at the same time wait a second for each other.
  void wait_for_peers(std::size_t member) {
    net::HttpClient peer({.host = "127.0.0.1", .port = members_[member].peer_port});
    const Deadline deadline = Deadline::in(15s);
    const auto answers = [&] {
      try {
        peer.post({.path = "/members", .deadline = Deadline::in(1s)});
        return true;
      } catch (const Error& problem) {
        check_runs(member, problem, deadline);  // throws at the deadline
        return false;
      }
    };
    while (!eventually(answers)) continue;
  }

  void check_runs(std::size_t member, const Error& problem, Deadline deadline) {
    const bool ended = ::waitpid(members_[member].pid, nullptr, WNOHANG) == members_[member].pid;
    if (ended) members_[member].pid = -1;
    if (ended || deadline.passed()) fail<IoError>("etcd does not start: {}\n{}", problem.what(), log_tail(member));
  }

  static std::uint16_t free_port(std::vector<FileDescriptor>& held) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      fail_errno("cannot look for a free port");
    }
    held.push_back(std::move(socket));
    return ntohs(address.sin_port);
  }

  std::filesystem::path log(std::size_t member) const { return *folder_ / fmt::format("etcd{}.log", member); }

  std::string log_tail(std::size_t member) const {
    const std::string all = read_file(log(member));
    return all.substr(all.size() - std::min<std::size_t>(all.size(), 2000));
  }

  std::vector<std::string> command(std::size_t number) const {
    std::string everybody;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      everybody += fmt::format("{}m{}=http://127.0.0.1:{}", i == 0 ? "" : ",", i, members_[i].peer_port);
    }
    const std::string clients =
        fmt::format("{}://127.0.0.1:{}", options_.tls ? "https" : "http", members_[number].port);
    const std::string peers = fmt::format("http://127.0.0.1:{}", members_[number].peer_port);
    std::vector<std::string> words{"etcd",
                                   fmt::format("--name=m{}", number),
                                   fmt::format("--data-dir={}", (*folder_ / fmt::format("etcd{}", number)).string()),
                                   "--listen-client-urls=" + clients,
                                   "--advertise-client-urls=" + clients,
                                   "--listen-peer-urls=" + peers,
                                   "--initial-advertise-peer-urls=" + peers,
                                   "--initial-cluster=" + everybody,
                                   fmt::format("--heartbeat-interval={}", options_.heartbeat.count()),
                                   fmt::format("--election-timeout={}", options_.election_timeout.count())};
    if (!options_.tls) return words;
    words.insert(words.end(), {"--client-cert-auth", "--trusted-ca-file=" + certificate().string(),
                               "--cert-file=" + certificate().string(), "--key-file=" + key().string()});
    return words;
  }

  pid_t spawn(std::size_t member) const {
    const std::vector<std::string> words = command(member);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const FileDescriptor output(::open(log(member).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    const pid_t pid = ::fork();
    if (pid < 0) fail_errno("fork");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(output.get(), 1);
      ::dup2(output.get(), 2);
      ::execvp(arguments[0], arguments.data());
      const std::string_view advice = "etcd is not installed: tools/install_dependencies installs it (etcd-server)\n";
      [[maybe_unused]] const auto written = ::write(2, advice.data(), advice.size());
      ::_exit(127);
    }
    return pid;
  }

  const EtcdOptions options_;
  std::unique_ptr<TempFolder> folder_;
  std::vector<Member> members_;
};

}  // namespace trireme
