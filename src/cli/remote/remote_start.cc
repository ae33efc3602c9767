#include "cli/remote/remote_start.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/flags/declare_flag.h"
#include "cli/remote/build_id.h"
#include "cli/remote/ssh.h"
#include "launch/companion.h"
#include "launch/job/running_job.h"
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
  const MutexLock lock(mutex_);
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
  const MutexLock lock(mutex_);
  run_ = std::filesystem::absolute(folder.path());
  map_ = run_ / "hosts.json";
  write_map();  // the hosts look for it
  question_.look_for = {map_.string()};
  for (const std::string& path : {launch::companion_program("trireme"), job.worker_argv.front()}) {
    question_.ids[path] = file_id(path);
  }
  const std::vector<AgentAnswer> answers = ask_hosts(hosts_, question_);
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!answers[i].problem.empty()) fail<InvalidArgument>("host {}: {}", hosts_[i].name, answers[i].problem);
    if (answers[i].seen.empty()) without_folder_.insert(hosts_[i].name);
  }
  if (without_folder_.size() == hosts_.size()) {
    fail<InvalidArgument>(
        "host {} has worker 0, which writes the results, but does not see {}: give with --out a folder on a file "
        "system that it shares with this host",
        hosts_.front().name, run_.string());
  }
  worker_count_ = job.workers;
  server_count_ = job.servers;
  asked_for_ = total_slots(hosts_);  // fewer are to be at work only if the flags say so
  place();
  job.listen = listen_address(answers) + ":0";
  job.carrier = [this](const std::string& role, std::uint32_t slot) { return carry(role, slot); };
  if (!discover_.empty()) watcher_ = std::jthread([this](const std::stop_token& stop) { watch_hosts(stop); });
}

/// The words before the command of a process. One that was not there before gets a host; with --discover it may wait
/// for one.
std::vector<std::string> RemoteStart::carry(const std::string& role, std::uint32_t slot) {
  const MutexLock lock(mutex_);
  std::uint32_t& count = role == "worker" ? worker_count_ : server_count_;
  const std::uint32_t before = std::exchange(count, std::max(count, slot + 1));
  place();
  if (discover_.empty() && !(role == "worker" ? workers_ : servers_).contains(slot)) {
    count = before;
    fail<InvalidArgument>("no host has room for {} {}: together they take {} workers; see --hosts", role, slot,
                          total_slots(hosts_));
  }
  return {launch::companion_program("trireme"),
          "carry",
          "--slot",
          fmt::format("{} {}", role, slot),
          "--map",
          map_.string(),
          "--"};
}

/// Finds hosts for all processes, and tells those that stand for them.
void RemoteStart::place() {
  workers_ = place_workers(workers_, hosts_, worker_count_, without_folder_);
  servers_ = place_servers(servers_, hosts_, server_count_);
  write_map();
}

void RemoteStart::write_map(bool over) const {
  HostMap map{.hosts = {}, .without_folder = {without_folder_.begin(), without_folder_.end()}, .over = over};
  for (const auto& [slot, host] : workers_) map.hosts[fmt::format("worker {}", slot)] = host;
  for (const auto& [slot, host] : servers_) map.hosts[fmt::format("server {}", slot)] = host;
  write_file_atomically(map_, as_bytes(nlohmann::json(map).dump(2) + "\n"));
}

/// Asked only while processes wait for a host: they would wait for longer than the others work.
bool RemoteStart::job_is_over() {
  {
    const MutexLock lock(mutex_);
    if (workers_.size() + servers_.size() == worker_count_ + server_count_) return false;
  }
  try {
    const cluster::JobPhase state = launch::RunningJob(run_).status().state;
    return state == cluster::JobPhase::kFinished || state == cluster::JobPhase::kFailed;
  } catch (const Error&) {  // it does not listen yet, or no longer
    return false;
  }
}

/// Those of the hosts that can take part. New ones are asked; a problem of one is no problem of the job.
std::vector<HostSlots> RemoteStart::usable(const std::vector<HostSlots>& named) {
  std::vector<HostSlots> hosts;
  for (const HostSlots& host : named) {
    try {
      if (!is_known(host.name)) ask_new(host);
      hosts.push_back(host);
    } catch (const Error& problem) {
      say_once(problem.what());
    }
  }
  return hosts;
}

bool RemoteStart::is_known(const std::string& host) {
  const MutexLock lock(mutex_);
  return std::ranges::count(hosts_, host, &HostSlots::name) > 0;
}

void RemoteStart::ask_new(const HostSlots& host) {
  const AgentAnswer answer = ask_hosts({host}, question_).front();
  if (!answer.problem.empty()) fail<InvalidArgument>("host {}: {}", host.name, answer.problem);
  const MutexLock lock(mutex_);
  without_folder_.erase(host.name);
  if (answer.seen.empty()) without_folder_.insert(host.name);
}

/// Workers of a host that is gone end, or are ended; those that wait for a host take places that are free.
void RemoteStart::take_hosts(const std::vector<HostSlots>& hosts) {
  const MutexLock lock(mutex_);
  if (hosts == hosts_) return;
  hosts_ = hosts;
  place();
  std::vector<std::string> names;
  for (const HostSlots& host : hosts_) names.push_back(host.name);
  fmt::print(stderr, "trireme: the hosts are now {} with room for {} workers\n", fmt::join(names, ", "),
             total_slots(hosts_));
}

/// Asks for as many workers as the hosts take, once; fewer, if a person wanted them, are not more again.
void RemoteStart::use_room() {
  std::uint32_t room = 0;
  {
    const MutexLock lock(mutex_);
    room = total_slots(hosts_);
    if (room <= std::max(worker_count_, asked_for_)) return;
  }
  launch::RunningJob(run_).scale({.workers = room, .servers = 0});
  asked_for_ = room;
}

/// Asks for the hosts again and again.
void RemoteStart::watch_hosts(const std::stop_token& stop) {
  for (;;) {
    Deadline next_look = Deadline::in(kLookAgain);
    for (const Deadline deadline = Deadline::in(kAskAgain); !deadline.passed();) {
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(50ms);
      if (!next_look.passed()) continue;
      next_look = Deadline::in(kLookAgain);
      if (!job_is_over()) continue;
      const MutexLock lock(mutex_);
      return write_map(/*over=*/true);
    }
    try {
      take_hosts(usable(ask_script(discover_)));
      use_room();
    } catch (const Error& problem) {
      say_once(problem.what());
    }
  }
}

/// What is wrong for longer is not said again every few seconds.
void RemoteStart::say_once(const std::string& text) {
  if (std::exchange(said_, text) != text) fmt::print(stderr, "trireme: {}\n", text);
}

}  // namespace trireme::cli
