#include "cli/remote/remote_start.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <set>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/declare_flag.h"
#include "cli/remote/build_id.h"
#include "cli/remote/ssh.h"
#include "launch/companion.h"
#include "launch/running_job.h"
#include "net/address.h"

namespace trireme::cli {
namespace {

constexpr auto kAskAgain = 5s;
constexpr auto kLookAgain = 200ms;  // the master ends half a second after the last member

std::vector<HostSlots> ask_script(const std::string& script) {
  const SshOutcome outcome = run_ssh({script}, "", Deadline::in(30s));
  if (outcome.status != 0) {
    fail<InvalidArgument>("--discover {}: it ended with status {}: {}", script, outcome.status, outcome.err);
  }
  return parse_host_lines("--discover " + script, outcome.out);
}

std::string absolute_script(const std::string& script) {
  return script.find('/') == std::string::npos ? script : std::filesystem::absolute(script).string();
}

/// Its last line: what a shell's profile prints comes before.
AgentAnswer parse_answer(const std::string& host, const SshOutcome& outcome) {
  if (outcome.status == 127) {
    fail<InvalidArgument>("host {} has no {}: install the same build at the same place", host,
                          launch::companion_program("trireme"));
  }
  if (outcome.status != 0) {
    fail<InvalidArgument>("host {} cannot be used: {}", host,
                          outcome.err.empty() ? fmt::format("ssh ended with status {}", outcome.status) : outcome.err);
  }
  std::string text = outcome.out;
  text.erase(text.find_last_not_of('\n') + 1);
  const auto begin = text.rfind('\n');
  const auto json = nlohmann::json::parse(begin == std::string::npos ? text : text.substr(begin + 1), nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object()) fail<InvalidArgument>("host {} gave no answer that makes sense: {}", host, text);
  return json.get<AgentAnswer>();
}

/// Of all hosts at once.
std::vector<AgentAnswer> ask_hosts(const std::vector<HostSlots>& hosts, const AgentOrder& question) {
  const std::string line = nlohmann::json(question).dump() + "\n";
  std::vector<std::future<SshOutcome>> asked;
  for (const HostSlots& host : hosts) {
    asked.push_back(std::async(std::launch::async, [&line, name = host.name] {
      return run_ssh(ssh_words(name, launch::companion_program("trireme")), line, Deadline::in(30s));
    }));
  }
  std::vector<AgentAnswer> answers;
  for (std::size_t i = 0; i < hosts.size(); ++i) answers.push_back(parse_answer(hosts[i].name, asked[i].get()));
  return answers;
}

/// The address of this host that the others see; loopback only if nobody sees another one.
std::string listen_address(const std::vector<AgentAnswer>& answers) {
  for (const AgentAnswer& answer : answers) {
    if (!answer.launcher.empty() && !net::is_loopback(answer.launcher)) return answer.launcher;
  }
  return "127.0.0.1";
}

}  // namespace

std::shared_ptr<RemoteStart> RemoteStart::open(const TrainFlags& flags) {
  const int given = !flags.hosts.empty() + !flags.hostfile.empty() + !flags.discover.empty();
  if (given == 0) return nullptr;
  if (given > 1) fail<InvalidArgument>("--hosts, --hostfile and --discover: give one of them");
  std::vector<HostSlots> hosts;
  if (!flags.hosts.empty()) hosts = parse_hosts("--hosts", flags.hosts);
  if (!flags.hostfile.empty()) {
    try {
      hosts = parse_host_lines("--hostfile " + flags.hostfile, read_file(flags.hostfile));
    } catch (const IoError& problem) {
      fail<InvalidArgument>("--hostfile: {}", problem.what());
    }
  }
  const std::string script = flags.discover.empty() ? "" : absolute_script(flags.discover);
  if (!script.empty()) hosts = ask_script(script);
  if (hosts.empty()) fail<InvalidArgument>("no host is named");
  auto start = std::shared_ptr<RemoteStart>(new RemoteStart(std::move(hosts)));
  start->discover_ = script;
  return start;
}

RemoteStart::~RemoteStart() {
  watcher_ = {};
  std::error_code ignored;
  if (!map_.empty()) std::filesystem::remove(map_, ignored);
}

void RemoteStart::adopt(CLI::App& command, TrainFlags& flags) const {
  const std::uint32_t room = total_slots(hosts_);
  if (command.get_option("--workers")->count() == 0) {
    set_unless_given(command, "--workers", flags.worker_range,
                     discover_.empty() ? std::to_string(room) : fmt::format("1:{}", room));
    return;
  }
  const WorkerRange range = parse_workers(flags.worker_range);
  if (discover_.empty() && range.start > room) {
    fail<InvalidArgument>("--workers {}: the hosts take {}; name more of them, or a:{} for more on one",
                          flags.worker_range, room, range.start);
  }
}

void RemoteStart::prepare(launch::JobSpec& job, const observe::RunFolder& folder) {
  run_ = std::filesystem::absolute(folder.path());
  map_ = run_ / "hosts.json";
  worker_count_ = job.workers;
  server_count_ = job.servers;
  workers_ = place_workers({}, hosts_, worker_count_);
  servers_ = place_servers({}, hosts_, server_count_);
  write_map();
  AgentOrder question{.argv = {}, .env = {}, .folder = {}, .ids = {}, .look_for = {map_.string()}};
  for (const std::string& path : {launch::companion_program("trireme"), job.worker_argv.front()}) {
    question.ids[path] = file_id(path);
  }
  const std::vector<AgentAnswer> answers = ask_hosts(hosts_, question);
  std::set<std::string> without_folder;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!answers[i].problem.empty()) fail<InvalidArgument>("host {}: {}", hosts_[i].name, answers[i].problem);
    if (answers[i].seen.empty()) without_folder.insert(hosts_[i].name);
  }
  if (const auto chief = workers_.find(0); chief != workers_.end() && without_folder.contains(chief->second)) {
    fail<InvalidArgument>(
        "host {} has worker 0, which writes the results, but does not see {}: give with --out a folder on a file "
        "system "
        "that it shares with this host",
        chief->second, run_.string());
  }
  job.listen = listen_address(answers) + ":0";
  job.carrier = [this, without_folder](const std::string& role, std::uint32_t slot) {
    std::vector<std::string> words{launch::companion_program("trireme"), "carry", "--slot",
                                   fmt::format("{} {}", role, slot)};
    bool no_folder = !without_folder.empty();
    if (discover_.empty()) {
      const SlotHosts& placed = role == "worker" ? workers_ : servers_;
      const auto host = placed.find(slot);
      if (host == placed.end()) fail<InvalidArgument>("no host has room for {} {}", role, slot);
      words.insert(words.end(), {"--host", host->second});
      no_folder = without_folder.contains(host->second);
    } else {  // another thread changes where they are
      words.insert(words.end(), {"--map", map_.string()});
    }
    if (no_folder) words.emplace_back("--no-folder");
    words.emplace_back("--");
    return words;
  };
  if (!discover_.empty()) watcher_ = std::jthread([this](const std::stop_token& stop) { watch_hosts(stop); });
}

/// For the processes that stand for those elsewhere.
void RemoteStart::write_map(bool over) const {
  nlohmann::json map = nlohmann::json::object();
  if (over) map[kJobIsOver] = "yes";
  for (const auto& [slot, host] : workers_) map[fmt::format("worker {}", slot)] = host;
  for (const auto& [slot, host] : servers_) map[fmt::format("server {}", slot)] = host;
  write_file_atomically(map_, as_bytes(map.dump(2) + "\n"));
}

/// Asked only while processes wait for a host: they would wait for longer than the others work.
bool RemoteStart::job_is_over() const {
  if (workers_.size() + servers_.size() == worker_count_ + server_count_) return false;
  try {
    const cluster::JobPhase state = launch::RunningJob(run_).status().state;
    return state == cluster::JobPhase::kFinished || state == cluster::JobPhase::kFailed;
  } catch (const Error&) {  // it does not listen yet, or no longer
    return false;
  }
}

/// Asks for the hosts again and again. Workers of a host that is gone end, or are ended; those of a new one take places
/// that are free, and then new ones.
void RemoteStart::watch_hosts(const std::stop_token& stop) {
  for (;;) {
    Deadline next_look = Deadline::in(kLookAgain);
    for (const Deadline deadline = Deadline::in(kAskAgain); !deadline.passed();) {
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(50ms);
      if (!next_look.passed()) continue;
      next_look = Deadline::in(kLookAgain);
      if (job_is_over()) return write_map(/*over=*/true);
    }
    try {
      const std::vector<HostSlots> hosts = ask_script(discover_);
      if (hosts == hosts_) continue;
      hosts_ = hosts;
      const std::uint32_t room = total_slots(hosts_);
      fmt::print(stderr, "trireme: the hosts are now {} with room for {} workers\n",
                 fmt::join(
                     [&] {
                       std::vector<std::string> names;
                       for (const HostSlots& host : hosts_) names.push_back(host.name);
                       return names;
                     }(),
                     ", "),
                 room);
      const std::uint32_t wanted = std::max(worker_count_, room);
      workers_ = place_workers(workers_, hosts_, wanted);
      servers_ = place_servers(servers_, hosts_, server_count_);
      write_map();
      if (wanted > worker_count_) launch::RunningJob(run_).scale({.workers = wanted, .servers = 0});
      worker_count_ = wanted;
    } catch (const Error& problem) {
      fmt::print(stderr, "trireme: {}\n", problem.what());
    }
  }
}

}  // namespace trireme::cli
