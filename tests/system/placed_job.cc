#include "tests/system/placed_job.h"

#include <signal.h>

#include <algorithm>

#include "base/file.h"
#include "base/random.h"
#include "cluster/protocol.h"
#include "net/connection.h"
#include "observe/run_folder.h"

namespace trireme::system_test {
namespace {

constexpr std::uint32_t kLanes = 4;
constexpr std::uint64_t kBatch = 16;

std::vector<std::string> placed(const Site& site, const std::vector<std::string>& command) {
  std::vector<std::string> words = site.enter_with;
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace

PlacedJob::PlacedJob(PlacedJobOptions options)
    : options_(std::move(options)), secret_(random_hex(32)), trace_(folder_ / "run") {
  observe::RunFolder::create({.path = run()});
  folder_.write("run/secret", secret_ + "\n");  // where `trireme scale` looks for it
}

std::unique_ptr<Program> PlacedJob::start_master(const std::vector<std::string>& flags, const Site& site) const {
  std::vector<std::string> words{"master",
                                 "--workers",
                                 std::to_string(options_.workers),
                                 "--min-workers",
                                 std::to_string(options_.min_workers),
                                 "--servers",
                                 std::to_string(options_.servers),
                                 "--replicas",
                                 options_.servers > 1 ? "1" : "0",
                                 "--listen",
                                 site.address + ":0"};
  if (options_.store.empty()) words.insert(words.end(), {"--announce", (run() / "master.json").string()});
  if (!options_.store.empty()) words.insert(words.end(), {"--store", options_.store});
  words.insert(words.end(), flags.begin(), flags.end());
  return std::make_unique<Program>(folder_, placed(site, trireme(words)),
                                   Program::Environment{{"TRIREME_SECRET", secret_}});
}

net::Address PlacedJob::announced() const {
  const auto file = run() / "master.json";
  if (!eventually([&] { return std::filesystem::exists(file); })) ADD_FAILURE() << "no master listens";
  return nlohmann::json::parse(read_file(file)).get<net::Address>();
}

/// What a scheduler tells a process of its place.
Program::Environment PlacedJob::place_of(const char* role, std::uint32_t slot) const {
  Program::Environment place{{"TRIREME_ROLE", role},
                             {"TRIREME_RANK", std::to_string(slot)},
                             {"TRIREME_WORKERS", std::to_string(std::max(options_.workers, slot + 1))},
                             {"TRIREME_INITIAL_WORKERS", std::to_string(options_.workers)},
                             {"TRIREME_SERVERS", std::to_string(options_.servers)},
                             {"TRIREME_SECRET", secret_},
                             {"TRIREME_RUN_DIR", run().string()},
                             {"TRIREME_TRACE_STEPS", "1"},
                             {"OPENBLAS_NUM_THREADS", "1"}};
  if (options_.store.empty()) place["TRIREME_MASTER"] = announced().text();
  if (!options_.store.empty()) place["TRIREME_STORE"] = options_.store;
  return place;
}

Program& PlacedJob::start_worker(std::uint32_t slot, const Site& site) {
  auto& worker = workers_[slot];
  worker = std::make_unique<Program>(folder_, placed(site, command()), place_of("worker", slot));
  return *worker;
}

std::unique_ptr<Program> PlacedJob::start_server(std::uint32_t slot, const Site& site) const {
  return std::make_unique<Program>(folder_, placed(site, trireme({"serve"})), place_of("server", slot));
}

void PlacedJob::kill_workers(const std::vector<std::uint32_t>& slots) {
  for (const std::uint32_t slot : slots) worker(slot).send(SIGKILL);
  for (const std::uint32_t slot : slots) workers_.erase(slot);
}

std::vector<std::string> PlacedJob::command() const {
  if (options_.own_loop) return {TRIREME_BINARY_DIR "/own_loop", images_.string(), "1000000"};
  return {TRIREME_BINARY_DIR "/trireme-worker", nlohmann::json(flags()).dump()};
}

cli::TrainFlags PlacedJob::flags() const {
  return {.model = "mlp",
          .data_dir = images_.string(),
          .workers = options_.workers,
          .servers = options_.servers,
          .strategy = options_.servers > 0 ? "ps" : "allreduce",
          .consistency = options_.servers > 0 ? options_.consistency : "",
          .buffers = "average",
          .steps = 1000000,
          .batch = kBatch,
          .schedule = "constant",
          .lanes = kLanes,
          .threads = 1,
          .checkpoint_every = "0",
          .step_ms = 10,
          .trace_steps = true};
}

const std::vector<observe::StepEvent>& PlacedJob::events() {
  for (const observe::StepEvent& event : trace_.next()) {
    events_.push_back(event);
    if (event.kind == observe::StepEvent::Kind::kCommit) steps_made_ = std::max(steps_made_, event.step + 1);
  }
  return events_;
}

Step PlacedJob::steps_made() {
  events();
  return steps_made_;
}

::testing::AssertionResult PlacedJob::advances(Step more) {
  const Step goal = steps_made() + more;
  if (eventually([&] { return steps_made() >= goal; })) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure() << "step " << goal << " was not made";
  for (const auto& [slot, worker] : workers_) failure << "\nworker " << slot << ":\n" << worker->err();
  return failure;
}

::testing::AssertionResult PlacedJob::logs(const Program& program, const WantedEvent& event, std::size_t times,
                                           std::chrono::milliseconds within) {
  if (eventually([&] { return count_events(program.err(), event) >= times; }, within))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no " << event << ", " << times << " times, but\n" << program.err();
}

void PlacedJob::expect_undisturbed_end() {
  for (auto& [slot, worker] : workers_) {
    const Outcome outcome = worker->wait();
    EXPECT_EQ(outcome.status, 0) << "worker " << slot << ":\n" << outcome.err;
  }
  EXPECT_EQ(parameters(), undisturbed_parameters());
}

std::string PlacedJob::parameters() const {
  if (!options_.own_loop) {
    return nlohmann::json::parse(read_file(observe::RunFolder::open(run()).result())).value("parameters_sha256", "");
  }
  std::string all;
  for (const auto& [slot, worker] : workers_) all += last_line(worker->out(), "parameters ");
  return all;
}

std::string PlacedJob::undisturbed_parameters() {
  const std::string steps = std::to_string(steps_made());
  const std::string out = (folder_ / "undisturbed").string();
  if (options_.own_loop) {
    const Outcome undisturbed = run_trireme(
        folder_,
        {"run", "-w", "1", "-s", "0", "--out", out, "--", TRIREME_BINARY_DIR "/own_loop", images_.string(), steps},
        {{"OPENBLAS_NUM_THREADS", "1"}});
    EXPECT_EQ(undisturbed.status, 0) << undisturbed.err;
    return last_line(read_file(observe::RunFolder::open(out).log("worker 0")), "parameters ");
  }
  const Outcome undisturbed = run_trireme(folder_, {"train",
                                                    "--json",
                                                    "--model",
                                                    "mlp",
                                                    "--data-dir",
                                                    images_.string(),
                                                    "--strategy",
                                                    flags().strategy,
                                                    "--steps",
                                                    steps,
                                                    "--batch",
                                                    std::to_string(kBatch),
                                                    "--schedule",
                                                    "constant",
                                                    "--lanes",
                                                    std::to_string(kLanes),
                                                    "--checkpoint-every",
                                                    "0",
                                                    "--threads",
                                                    std::to_string(flags().threads),
                                                    "--workers",
                                                    "2",
                                                    "--out",
                                                    out});
  EXPECT_EQ(undisturbed.status, 0) << undisturbed.err;
  EXPECT_EQ(undisturbed.json().value("steps", Step{0}), steps_made());
  return undisturbed.json().value("parameters_sha256", "none");
}

void PlacedJob::expect_each_step_once() {
  std::map<std::int64_t, Step> begun;  // how many, by process
  for (const observe::StepEvent& event : events()) {
    ASSERT_EQ(event.view, 1u) << "at step " << event.step;
    if (event.kind != observe::StepEvent::Kind::kBegin) continue;
    ASSERT_EQ(event.step, begun[event.pid]++) << "process " << event.pid;
  }
  EXPECT_EQ(begun.size(), options_.workers);
  for (const auto& [pid, steps] : begun) EXPECT_EQ(steps, steps_made()) << "process " << pid;
}

void ask_to_stop(const net::Address& address, const std::string& secret) {
  net::EventLoop loop("stop", 1);
  net::Connection::open(loop, address, {.secret = secret, .peer_name = "the master"})
      ->call<cluster::Done>(cluster::kStop, 0, cluster::StopRequest{"the test has seen enough"}, Deadline::in(10s),
                            "the request to stop");
}

}  // namespace trireme::system_test
