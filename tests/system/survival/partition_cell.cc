#include "tests/system/survival/partition_cell.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "chaos/analysis.h"
#include "cluster/master_finder.h"
#include "cluster/protocol.h"
#include "net/connection.h"
#include "observe/run_folder.h"

namespace trireme::system_test {
namespace {

constexpr std::uint32_t kCellWorkers = 3;
constexpr std::uint32_t kCellServers = 2;
constexpr auto kCellForGood = 15s;  // how long a cut that is for good is watched before the job is asked to end
constexpr auto kCellHealsWithin = 60s;

struct Names {
  const char* one;  ///< the role, for people
  const char* other;
  std::vector<std::string> from;  ///< its processes
  std::string to;
};

/// The chief, and the server of the first shard: those whose loss would cost most.
Names names_of(CutPair pair) {
  switch (pair) {
    case CutPair::kWorkerWorker:
      return {"worker", "worker", {"worker0"}, "worker1"};
    case CutPair::kWorkerServer:
      return {"worker", "server", {"worker0"}, "server0"};
    case CutPair::kTwoWorkersServer:
      return {"2workers", "server", {"worker0", "worker1"}, "server0"};
    case CutPair::kServerServer:
      return {"server", "server", {"server0"}, "server1"};
    case CutPair::kWorkerMaster:
      return {"worker", "master", {"worker0"}, "master0"};
    case CutPair::kServerMaster:
      return {"server", "master", {"server0"}, "master0"};
    case CutPair::kMasterEtcd:
      return {"master", "etcd", {"master0"}, "etcd"};
  }
  fail<InvalidArgument>("no such pair");
}

std::uint32_t servers_of(const PartitionCell& cell) {
  const bool needs = cell.leased() || (cell.pair != CutPair::kWorkerWorker && cell.pair != CutPair::kWorkerMaster);
  return needs ? kCellServers : 0;
}

double seconds_between(std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) / 1e9; }

}  // namespace

std::string PartitionCell::name() const {
  const Names names = names_of(pair);
  const char* way = direction == CutDirection::kBoth ? "both" : direction == CutDirection::kThere ? "there" : "back";
  return fmt::format("{}-{} {} {}{}", names.one, names.other, way,
                     lasts ? fmt::format("{}s", lasts->count()) : "for-good", leased() ? " " + consistency : "");
}

PartitionedJob::PartitionedJob(const PartitionCell& cell)
    : cell_(cell),
      names_{{"etcd", 1},    {"master0", 2}, {"master1", 3}, {"worker0", 4}, {"worker1", 5},
             {"worker2", 6}, {"server0", 7}, {"server1", 8}, {"observer", 9}},
      job_({.workers = kCellWorkers,
            .servers = servers_of(cell),
            .consistency = cell.consistency,
            .store = "etcd://10.99.1.2:2379/job"}) {
  hosts_ = Host::make_routed(static_cast<int>(names_.size()));
  if (hosts_.empty()) fail<IoError>("network namespaces are not permitted here");
}

void PartitionedJob::start() {
  const Site etcd = host("etcd").site();
  std::vector<std::string> words = etcd.enter_with;
  const std::string clients = "http://10.99.1.2:2379";
  const std::string peers = "http://127.0.0.1:2380";
  for (const std::string& word :
       {std::string("etcd"), "--data-dir=" + (job_.folder() / "etcd").string(), "--listen-client-urls=" + clients,
        "--advertise-client-urls=" + clients, "--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
        "--initial-cluster=default=" + peers}) {
    words.push_back(word);
  }
  programs_["etcd"] = std::make_unique<Program>(job_.folder(), words);
  for (const std::string name : {"master0", "master1"}) {  // the first one leads
    programs_[name] =
        job_.start_master({"--standby", "--hang-after", std::to_string(kCellHangAfter.count())}, host(name).site());
    if (name == "master0" && !PlacedJob::logs(*programs_[name], "listening", 1, kPatience))
      fail<Timeout>("no master leads");
  }
  for (std::uint32_t slot = 0; slot < servers_of(cell_); ++slot) {
    const std::string name = fmt::format("server{}", slot);
    programs_[name] = job_.start_server(slot, host(name).site());
  }
  for (std::uint32_t slot = 0; slot < kCellWorkers; ++slot) {
    job_.start_worker(slot, host(fmt::format("worker{}", slot)).site());
  }
  if (!eventually([&] { return job_.steps_made() > 20; })) fail<Timeout>("the job does not begin");
  if (!eventually([&] { return complete(); })) fail<Timeout>("not all take part");
}

void PartitionedJob::set_link(bool cut) {
  const Names names = names_of(cell_.pair);
  const std::string other = host(names.to).address();
  for (const std::string& from : names.from) {
    const std::string one = host(from).address();
    hosts_[0]->run([&] {
      if (cell_.direction != CutDirection::kBack) lose_packets(one, other, cut);
      if (cell_.direction != CutDirection::kThere) lose_packets(other, one, cut);
    });
  }
}

/// Notes reasons as they come.
bool PartitionedJob::watch_until(const std::function<bool()>& done, std::chrono::milliseconds within) {
  return eventually(
      [&] {
        read_master_logs();
        return done();
      },
      within);
}

void PartitionedJob::read_master_logs() {
  for (const char* name : {"master0", "master1"}) {
    const auto events = events_in(programs_.at(name)->err());
    for (std::size_t i = known_[name]; i < events.size(); ++i) {
      const LoggedEvent& event = events[i];
      const bool names_reason = std::set<std::string>{"member_lost",   "view_formed",     "members_awaited",
                                                      "members_apart", "leadership_lost", "leadership_renewal_failed"}
                                    .contains(event.key);
      if (!names_reason) continue;
      if (event.key == "view_formed") ++outcome_.views;
      if (!outcome_.named_s) outcome_.named_s = seconds_between(cut_at_, observe::trace_clock());
      const auto reason = event.fields.find("reason");
      if (!healed_ && reason != event.fields.end() && !reason_named()) outcome_.reason = reason->second;
    }
    known_[name] = events.size();
  }
}

/// The reason that is waited for, whatever the masters say later: several lines may come between two looks.
bool PartitionedJob::reason_named() const {
  return !cell_.until_named.empty() && outcome_.reason.find(cell_.until_named) != std::string::npos;
}

/// The reason is known, and steps go on without whoever is left out.
bool PartitionedJob::named() const {
  return reason_named() && (outcome_.views > 0 || cell_.pair == CutPair::kMasterEtcd);
}

/// The longest time between two new steps of which the first was made before `begun_before`.
double PartitionedJob::longest_pause(Nanoseconds begun_before) const {
  double longest = 0;
  for (std::size_t i = 0; i + 1 < made_.size() && made_[i] < begun_before; ++i) {
    longest = std::max(longest, seconds_between(std::max(made_[i], cut_at_), made_[i + 1]));
  }
  return longest;
}

nlohmann::json PartitionedJob::status() {
  try {
    return host("observer").ask([&]() -> nlohmann::json {
      const auto address = cluster::make_master_finder("etcd://10.99.1.2:2379/job")();
      if (!address) return nullptr;
      net::EventLoop loop("status", 1);
      return net::Connection::open(loop, *address,
                                   {.secret = job_.secret(), .role = "master", .deadline = Deadline::in(2s)})
          ->call<cluster::JobStatus>(cluster::kStatus, 0, cluster::Done{}, Deadline::in(2s), "the status");
    });
  } catch (const Error&) {
    return nullptr;  // it cannot be asked just now
  }
}

/// All take part, and all copies are there.
bool PartitionedJob::complete() {
  const nlohmann::json now = status();
  return !now.is_null() && now.at("workers").size() == kCellWorkers && now.at("servers").size() == servers_of(cell_) &&
         now.at("copies_due") == 0 && now.at("state") == nlohmann::json(cluster::JobPhase::kRunning);
}

PartitionOutcome PartitionedJob::run() {
  start();
  for (const char* name : {"master0", "master1"}) known_[name] = events_in(programs_.at(name)->err()).size();
  set_link(/*cut=*/true);
  cut_at_ = observe::trace_clock();
  const auto lasts = cell_.lasts.value_or(kCellForGood);
  Nanoseconds until = cut_at_ + std::chrono::nanoseconds(lasts).count();
  const bool noticed =
      watch_until([&] { return cell_.until_named.empty() ? observe::trace_clock() >= until : named(); }, lasts + 60s);
  if (!noticed) outcome_.wrong.emplace_back("nobody said why");
  if (!cell_.until_named.empty()) until = observe::trace_clock();
  if (cell_.lasts || !cell_.until_named.empty()) {
    set_link(/*cut=*/false);
    healed_ = true;
    const Nanoseconds healed_at = observe::trace_clock();
    if (watch_until([&] { return complete(); }, kCellHealsWithin)) {
      outcome_.healed_s = seconds_between(healed_at, observe::trace_clock());
    } else {
      outcome_.wrong.push_back("it did not heal: " + status().dump());
    }
    const Step goal = job_.steps_made() + 20;
    if (!watch_until([&] { return job_.steps_made() >= goal; }, kPatience)) {
      outcome_.wrong.emplace_back("no steps after it has healed");
    }
  }
  end();
  Step made = 0;
  for (const observe::StepEvent& event : job_.events()) {
    if (event.kind != observe::StepEvent::Kind::kCommit || event.step + 1 <= made) continue;
    made = event.step + 1;
    if (event.at < cut_at_) made_.clear();
    made_.push_back(event.at);
  }
  outcome_.pause_s = longest_pause(until);
  const double patience = static_cast<double>(kCellPatience.count());
  if (outcome_.pause_s > patience) outcome_.late.emplace_back("it stood still");
  if (outcome_.named_s.value_or(0) > patience) outcome_.late.emplace_back("nobody said why in time");
  if (made_.size() < 2) outcome_.wrong.emplace_back("it made no step after the cut");
  return outcome_;
}

void PartitionedJob::end() {
  host("observer").run([&] {
    std::optional<net::Address> address;
    const auto somebody_leads = [&] {  // not for a moment after etcd was away
      address = cluster::make_master_finder("etcd://10.99.1.2:2379/job")();
      return address.has_value();
    };
    if (eventually(somebody_leads)) ask_to_stop(*address, job_.secret());
  });
  const auto result = observe::RunFolder::open(job_.run()).result();
  if (!watch_until([&] { return std::filesystem::exists(result); }, 60s)) {
    return outcome_.wrong.push_back("it does not end: " + status().dump());
  }
  if (cell_.leased()) {
    const std::string problem = audit();
    outcome_.equal = problem.empty();
    if (!outcome_.equal) outcome_.wrong.push_back(problem);
    return;
  }
  outcome_.equal = job_.parameters() == job_.undisturbed_parameters();
  if (!outcome_.equal) outcome_.wrong.emplace_back("other parameters than without the cut");
}

/// What is wrong with the units that took effect; empty: each did once.
std::string PartitionedJob::audit() {
  chaos::WorkPlan plan = chaos::work_seen_in(job_.events());
  plan.steps = nlohmann::json::parse(read_file(observe::RunFolder::open(job_.run()).result())).value("steps", Step{0});
  return plan.steps == 0 ? "no result" : chaos::audit_work(job_.events(), plan).first_problem;
}

std::map<std::string, std::string> PartitionedJob::logs() {
  std::map<std::string, std::string> all;
  for (const auto& [name, program] : programs_) all[name] = program->err();
  for (const auto& [slot, worker] : job_.workers()) all[fmt::format("worker{}", slot)] = worker->err();
  return all;
}

}  // namespace trireme::system_test
