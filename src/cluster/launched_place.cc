#include "cluster/launched_place.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "net/route.h"

namespace trireme::cluster {
namespace {

/// A folder of this user on this host, which nobody else can read.
std::filesystem::path private_folder(const Variables& variables) {
  const auto found = variables.find("XDG_RUNTIME_DIR");
  const bool given = found != variables.end() && ::access(found->second.c_str(), W_OK) == 0;
  const std::filesystem::path folder = given ? found->second + "/trireme" : fmt::format("/tmp/trireme-{}", ::geteuid());
  ::mkdir(folder.c_str(), 0700);
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) {
    fail<IoError>("cannot make {}: {}", folder.string(), std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    fail<InvalidArgument>("{} is not a folder of this user alone (mode 0700): remove it", folder.string());
  }
  return folder;
}

/// The address of this host by which others reach it: that of `name`, unless that is loopback, as it is on Debian.
std::string outer_address(const std::string& name) {
  if (!name.empty()) {
    try {
      const net::Route route = net::route_to({.host = name, .port = 1});
      if (route.stays_here() && !net::is_loopback(route.to)) return route.to;
    } catch (const IoError&) {  // not known here: any address of ours
    }
  }
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) fail<IoError>("cannot list the network's addresses: {}", std::strerror(errno));
  std::string result;
  for (const ifaddrs* one = all; one != nullptr && result.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr) result = text;
  }
  ::freeifaddrs(all);
  return result.empty() ? "127.0.0.1" : result;  // without a network all processes are here
}

/// nullopt if it is not there yet.
std::optional<Meeting> read_meeting(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    fail<InvalidArgument>("{}: others can read or write the secret in there, so it is not used; remove it",
                          path.string());
  }
  const auto json = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json.get<Meeting>();
}

std::shared_ptr<net::Connection> connect_to_master(net::EventLoop& loop, const Meeting& meeting) {
  return net::Connection::open(loop, meeting.master,
                               {.secret = meeting.secret,
                                .transport = net::Transport::kAuto,
                                .role = "master",
                                .peer_name = "the master",
                                .deadline = Deadline::in(2s),
                                .limits = {},
                                .await_listener = false});
}

/// Where the launcher's address is this host's, and none of its other processes here is to be asked.
bool is_own_address(const net::Address& address, Deadline deadline) {
  for (;;) {
    try {
      return net::route_to(address).stays_here();
    } catch (const IoError&) {
      if (deadline.passed()) throw;
      std::this_thread::sleep_for(100ms);  // names of pods appear late
    }
  }
}

/// Field `number` of /proc/<pid>/stat, from 3 on; they follow the command, which may contain anything.
long long stat_field(pid_t pid, int number) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", pid));
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string field;
  for (int at = 3; at <= number; ++at) fields >> field;
  return std::atoll(field.c_str());
}

/// The nearest process above this one that is not a rank itself, as a scheduler's shell around a rank is: Hydra's
/// proxy, which started all ranks of this host. Its number alone could be another one's soon.
std::string mpi_parent() {
  constexpr int kParent = 4;
  constexpr int kStarted = 22;
  try {
    auto pid = static_cast<pid_t>(stat_field(::getpid(), kParent));
    while (pid > 1) {
      const std::string variables = std::string(1, '\0') + read_file(fmt::format("/proc/{}/environ", pid));
      if (variables.find(std::string("\0PMI_RANK=", 10)) == std::string::npos) break;
      pid = static_cast<pid_t>(stat_field(pid, kParent));
    }
    return fmt::format("{}.{}", pid, stat_field(pid, kStarted));
  } catch (const IoError&) {  // a parent of another user
    return "";
  }
}

const char* value_in(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

}  // namespace

// A file may be left over from a job that was killed, a name may appear late.
void await_launched_master(LaunchedPlace& place, Deadline deadline) {
  net::EventLoop loop("meeting", 1);
  const std::string where =
      place.plan.meeting_file.empty() ? place.plan.master_at.text() : place.plan.meeting_file.string();
  std::string problem = "the first process has not left its address there";
  for (;;) {
    try {
      std::optional<Meeting> meeting;
      if (place.plan.meeting_file.empty()) {
        meeting = place.meeting;
        meeting->master = place.plan.master_at;
      } else {
        meeting = read_meeting(place.plan.meeting_file);
      }
      if (meeting) {
        const auto master = connect_to_master(loop, *meeting);
        place.meeting = *meeting;
        if (place.plan.claims_slot) {
          const bool server = place.launcher.role == PsLiteRole::kServer;
          const auto claim = master->call<SlotClaim>(
              kClaimSlot, 0, SlotClaimRequest{server ? Role::kServer : Role::kWorker}, Deadline::in(5s), "a rank");
          (server ? place.plan.own_servers : place.plan.own_workers) = {claim.slot};
        }
        return;
      }
    } catch (const PeerLost& failed) {
      problem = failed.what();
    } catch (const Timeout& failed) {
      problem = failed.what();
    } catch (const IoError& failed) {
      problem = failed.what();
    }
    if (deadline.passed()) {
      fail<Timeout>("did not find the master within {:.0f} s ({}): {}", seconds(deadline.allowed()), where, problem);
    }
    std::this_thread::sleep_for(50ms);
  }
}

StartWish read_start_wish(const Variables& variables) {
  StartWish wish;
  wish.has_secret = !read_secret([&](const char* name) { return value_in(variables, name); }).empty();
  if (const char* folder = value_in(variables, "TRIREME_RENDEZVOUS"); folder != nullptr) wish.meeting_folder = folder;
  wish.private_folder = private_folder(variables);
  wish.working_folder = std::filesystem::current_path();
  if (variables.contains("PMI_RANK")) wish.mpi_parent = mpi_parent();
  return wish;
}

LaunchedPlace take_launched_place(const LauncherPlace& launcher, const StartWish& wish, Deadline deadline) {
  LaunchedPlace place{.launcher = launcher, .plan = plan_start(launcher, wish), .hosts_master = false, .meeting = {}};
  const Variables variables = own_variables();
  place.meeting.secret = read_secret([&](const char* name) { return value_in(variables, name); });
  place.hosts_master = place.plan.master == MasterHost::kHere ||
                       (place.plan.master == MasterHost::kWhoCanBind && is_own_address(place.plan.master_at, deadline));
  if (!place.hosts_master) {
    await_launched_master(place, deadline);
    return place;
  }
  if (place.meeting.secret.empty()) place.meeting.secret = random_hex(32);
  if (!place.plan.meeting_file.empty()) std::filesystem::remove(place.plan.meeting_file);  // of one that was killed
  if (place.plan.meeting_file.empty()) {
    const net::Route route = net::route_to(place.plan.master_at);
    place.listen = {.host = route.to, .port = place.plan.master_at.port};
  } else if (place.plan.loopback) {
    place.listen.host = "127.0.0.1";
  } else if (const char* listen = value_in(variables, "TRIREME_LISTEN"); listen != nullptr && *listen != 0) {
    place.listen = net::parse_address(listen);
  } else {
    place.listen.host = outer_address(launcher.host);
  }
  return place;
}

void announce(const LaunchedPlace& place, const net::Address& master, const std::string& run_folder) {
  const std::filesystem::path& path = place.plan.meeting_file;
  if (path.empty()) return;  // the others know the address
  Meeting meeting = place.meeting;
  meeting.master = master;
  meeting.run_folder = run_folder;
  const std::filesystem::path fresh = fmt::format("{}.{}", path.string(), ::getpid());
  const FileDescriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string text = nlohmann::json(meeting).dump() + "\n";
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    fail<IoError>("cannot leave the master's address for the others in {}: {}", path.string(), std::strerror(errno));
  }
}

void withdraw(const LaunchedPlace& place) noexcept {
  if (!place.hosts_master || place.plan.meeting_file.empty()) return;
  ::unlink(place.plan.meeting_file.c_str());
}

JobEnvironment to_environment(const LaunchedPlace& place, const Variables& variables) {
  if (place.plan.own_workers.empty()) {
    fail<InvalidArgument>("{} started this process as a {}: start 'trireme {}' there, not a training program",
                          to_string(place.launcher.launcher),
                          place.launcher.role == PsLiteRole::kServer ? "server" : "scheduler",
                          place.launcher.role == PsLiteRole::kServer ? "serve" : "master");
  }
  if (place.plan.own_workers.size() > 1) {
    fail<InvalidArgument>(
        "{} started one process for {} workers of this node: start it as 'trireme run -- program', which starts them",
        to_string(place.launcher.launcher), place.plan.own_workers.size());
  }
  JobEnvironment result{.role = Role::kWorker,
                        .rank = place.plan.own_workers.front(),
                        .workers = place.plan.workers,
                        .servers = place.plan.servers,
                        .master = place.hosts_master ? place.listen : place.meeting.master,
                        .hosts_master = place.hosts_master,
                        .secret = place.meeting.secret};
  if (place.hosts_master) result.listen.host = place.listen.host;
  result.own_servers = place.plan.own_servers;
  result.backend = read_backend([&](const char* name) { return value_in(variables, name); });
  result.run_folder = place.plan.leads ? "" : place.meeting.run_folder;
  if (const char* folder = value_in(variables, "TRIREME_RUN_DIR"); folder != nullptr) result.run_folder = folder;
  if (!std::filesystem::is_directory(result.run_folder)) {
    if (!place.plan.leads) result.run_folder.clear();  // another host's
  }
  if (const char* options = value_in(variables, "TRIREME_TRAIN_OPTIONS"); options != nullptr) {
    result.train_options = options;
  }
  if (const char* level = value_in(variables, kLogLevelVariable); level != nullptr && *level != 0) {
    result.log_level = parse_log_level(kLogLevelVariable, level);
  }
  result.metrics = read_metrics([&](const char* name) { return value_in(variables, name); });
  return result;
}

}  // namespace trireme::cluster
