// Servers write their parts of a checkpoint themselves: all of one version, whatever goes on meanwhile.

#include <filesystem>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/writer.h"
#include "tests/ps/survival.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::ps {
namespace {

using ::testing::HasSubstr;

/// Saves as a chief does: it has no tensors of its own, but says which there are, and completes the checkpoint.
class Saver {
 public:
  explicit Saver(const std::filesystem::path& folder)
      : folder_(folder), writer_({.folder = folder, .retention = {.keep_last = 0}}) {}

  /// What went wrong; empty if the checkpoint is complete.
  std::string save(Client& client, Step version, Step step, optim::Rule rule, const std::string& attempt = "launch-1") {
    const auto outcome = client.save({.version = version, .attempt = attempt});
    if (!outcome.problem.empty()) return outcome.problem;
    begin(client, step, rule, attempt, outcome);
    return end();
  }

  void begin(const Client& client, Step step, optim::Rule rule, const std::string& attempt,
             const Client::SaveOutcome& outcome, std::chrono::milliseconds within = kPatience) {
    checkpoint::PartInfo info{.step = step, .parts = outcome.parts + 1, .attempt = attempt};
    info.complete_within = within;
    info.meta["updates"] = outcome.updates;
    for (const TableSpec& table : client.layout().tables()) {
      const std::vector<std::int64_t> shape{static_cast<std::int64_t>(table.elements)};
      info.tensors.push_back({checkpoint::model_tensor(table.name), DType::kF32, shape});
      for (const std::string& state : optim::state_names({.rule = rule})) {
        info.tensors.push_back({checkpoint::optimizer_tensor(table.name, state), DType::kF32, shape});
      }
    }
    EXPECT_TRUE(writer_.start(std::move(info), std::span<const checkpoint::Piece>{}));
  }

  std::string end() { return writer_.finish(Deadline::in(kPatience))->problem; }

  checkpoint::Checkpoint open(Step step) const {
    return checkpoint::Checkpoint::open(folder_ / checkpoint::step_folder_name(step));
  }

  /// What was saved, as the servers hold it.
  TablesState read(const Client& client, Step step) const {
    const auto saved = open(step);
    TablesState state = client.empty_state();
    const auto fill = [&](const std::string& name, std::vector<float>& values) {
      saved.read(name, 0, std::as_writable_bytes(std::span(values)));
    };
    for (std::size_t i = 0; i < state.tables.size(); ++i) {
      const std::string& table = client.layout().tables()[i].name;
      fill(checkpoint::model_tensor(table), state.tables[i].parameters);
      for (std::size_t k = 0; k < state.tables[i].state.size(); ++k) {
        fill(checkpoint::optimizer_tensor(table, fmt::format("{}", k)), state.tables[i].state[k]);
      }
    }
    state.updates = saved.meta().at("updates");
    return state;
  }

 private:
  std::filesystem::path folder_;
  checkpoint::Writer writer_;
};

void expect_same(const TablesState& saved, const TablesState& expected) {
  EXPECT_EQ(saved.updates, expected.updates);
  ASSERT_EQ(saved.tables.size(), expected.tables.size());
  for (std::size_t i = 0; i < saved.tables.size(); ++i) {
    EXPECT_EQ(saved.tables[i].parameters, expected.tables[i].parameters) << i;
    EXPECT_EQ(saved.tables[i].state, expected.tables[i].state) << i;
  }
}

/// Two servers that know the folder, each the other's replica, and one worker in step.
struct SaveTest : ::testing::TestWithParam<net::Transport> {
  ServerOptions saving_server() const {
    ServerOptions options = server_options();
    options.checkpoints = checkpoints;
    return options;
  }

  Client::TableOptions tables(const Consistency& consistency = {}) const {
    Client::TableOptions tables = options_of(consistency);
    tables.checkpoint_every = 2;
    return tables;
  }

  void start(const Consistency& consistency = {}) {
    client.open(kTables, tables(consistency));
    set_initial(client);
    client.assign();
    client.pull();
  }

  void step() {
    compute(client, {0, kLanes}, version);
    const std::uint32_t all[] = {0, 1, 2};
    client.push(all, info_of({0, kLanes}, version));
    version = client.finish().newest;
  }

  std::size_t files_in_all() const {
    using Files = std::filesystem::recursive_directory_iterator;
    return static_cast<std::size_t>(std::distance(Files(folder.path()), Files()));
  }

  TempFolder folder;
  const std::filesystem::path checkpoints = folder / "checkpoints";
  Server one{saving_server()};
  std::optional<Server> two{std::in_place, saving_server()};
  net::EventLoop loop{"client"};
  cluster::ViewInfo view = cluster::first_view(1, {one.address(), two->address()}, 2);
  Client client{loop, client_options(view, 1, GetParam())};
  Saver saver{checkpoints};
  Step version = 0;
};

INSTANTIATE_TEST_SUITE_P(Over, SaveTest, ::testing::Values(net::Transport::kShm, net::Transport::kTcp),
                         [](const auto& test) { return to_string(test.param); });

TEST_P(SaveTest, SavesAPastVersion) {
  start();
  EXPECT_TRUE(client.servers_save());
  step();
  step();
  const TablesState expected = client.fetch();
  step();  // the servers have gone on
  EXPECT_EQ(saver.save(client, 2, 2, optim::Rule::kAdam), "");
  expect_same(saver.read(client, 2), expected);
  EXPECT_EQ(saver.open(2).manifest().parts.size(), 3u);

  EXPECT_THAT(saver.save(client, 2, 2, optim::Rule::kAdam), HasSubstr("another version than 2"))
      << "it was not kept for ever";
}

TEST_P(SaveTest, SavesTheCurrentVersionAndRefusesOthers) {
  start();
  step();
  EXPECT_EQ(saver.save(client, 1, 1, optim::Rule::kAdam), "");
  expect_same(saver.read(client, 1), client.fetch());
  EXPECT_THAT(client.save({.version = 0, .attempt = "a"}).problem, HasSubstr("another version than 0"));
  EXPECT_THAT(client.save({.version = 3, .attempt = "a"}).problem, HasSubstr("another version than 3"));
}

TEST_P(SaveTest, SavesAFutureVersion) {
  start();
  step();
  step();
  const auto outcome = client.save({.version = 3, .attempt = "early"});
  EXPECT_EQ(outcome.problem, "");
  step();
  const TablesState expected = client.fetch();
  step();
  saver.begin(client, 3, optim::Rule::kAdam, "early", {.parts = outcome.parts, .updates = 3, .problem = {}});
  EXPECT_EQ(saver.end(), "");
  expect_same(saver.read(client, 3), expected);
}

TEST_P(SaveTest, EndOfTheViewDropsAWaitingRequest) {
  start();
  step();
  EXPECT_EQ(client.save({.version = 2, .attempt = "launch-1"}).problem, "");  // never: the step is made elsewhere
  ++view.view;
  client.enter(view, 1);
  client.pull();
  EXPECT_EQ(saver.save(client, 1, 1, optim::Rule::kAdam, "launch-2"), "") << "the old request is in nobody's way";
  expect_same(saver.read(client, 1), client.fetch());
  EXPECT_FALSE(std::filesystem::exists(checkpoints / checkpoint::step_folder_name(2)));
}

TEST_P(SaveTest, UnitsOfAsynchronousWorkers) {
  start(parse_consistency("asp"));
  for (std::uint64_t unit = 0; unit < 3 * kLanes; ++unit) {
    std::ranges::fill(client.all_gradients(), 1.0f);
    const std::uint32_t all[] = {0, 1, 2};
    client.push(all, {.step = unit, .unit = unit, .lanes = {0, 1}, .samples = 1, .lr = 0.1});
    client.finish();
  }
  EXPECT_EQ(saver.save(client, 3 * kLanes, 3, optim::Rule::kAdam), "") << "a step has as many units as lanes";
  expect_same(saver.read(client, 3), client.fetch());
  EXPECT_THAT(client.save({.version = 3 * kLanes + 1, .attempt = "a"}).problem, HasSubstr("another version"));
}

TEST_P(SaveTest, DiskErrorFailsOnlyTheCheckpoint) {
  folder.write("checkpoints", "a file where the folder should be");
  start();
  step();
  EXPECT_EQ(client.save({.version = 1, .attempt = "a"}).problem, "");
  step();
  std::filesystem::remove(checkpoints);
  EXPECT_EQ(saver.save(client, 2, 2, optim::Rule::kAdam, "b"), "");
  expect_same(saver.read(client, 2), client.fetch());
}

TEST_P(SaveTest, SlowDiskDelaysNeitherStepsNorTheNextCheckpointNorTheEnd) {
  start();
  step();
  EXPECT_EQ(client.save({.version = 1, .attempt = "slow", .bytes_per_second = 10'000}).problem, "");
  step();
  EXPECT_EQ(saver.save(client, 2, 2, optim::Rule::kAdam), "");
  expect_same(saver.read(client, 2), client.fetch());
  EXPECT_FAILS(saver.open(1), Corrupt, "not a complete checkpoint");
  step();
  EXPECT_EQ(client.save({.version = 3, .attempt = "slow", .bytes_per_second = 10'000}).problem, "");
}  // and the servers end now, not in a minute

TEST_P(SaveTest, DeadServerLeavesThePreviousCheckpoint) {
  start();
  step();
  EXPECT_EQ(saver.save(client, 1, 1, optim::Rule::kAdam), "");
  const TablesState expected = client.fetch();
  step();
  const auto outcome = client.save({.version = 2, .attempt = "launch-2", .bytes_per_second = 10'000});
  two.reset();
  saver.begin(client, 2, optim::Rule::kAdam, "launch-2", outcome, 100ms);
  EXPECT_THAT(saver.end(), HasSubstr("did not come"));
  EXPECT_FAILS(saver.open(2), Corrupt, "not a complete checkpoint");
  expect_same(saver.read(client, 1), expected);
}

TEST_P(SaveTest, RefusesInvalidRequests) {
  start();
  step();
  const auto connection = net::Connection::open(loop, one.address(), {.secret = kSecret, .transport = GetParam()});
  const auto ask = [&](const SaveRequest& request, View in) {
    return connection->call<SaveReply>(kSave, in, request, Deadline::in(10s), "a part");
  };
  const SaveRequest good{.version = 1, .attempt = "launch-1", .part = 1, .parts = 2};
  const auto with = [&](auto change) {
    SaveRequest request = good;
    change(request);
    return request;
  };
  for (const std::uint32_t number : {0u, 2u, 3u, ~0u}) {
    EXPECT_FAILS(ask(with([&](auto& r) { r.part = number; }), 1), InvalidArgument, "cannot be a server's");
  }
  EXPECT_FAILS(ask(with([](auto& r) { r.parts = 0; }), 1), InvalidArgument, "cannot be a server's");
  EXPECT_FAILS(ask(with([](auto& r) { r.parts = ~0u; }), 1), InvalidArgument, "at most 65536");
  for (const std::string attempt : {"", "..", "../../elsewhere", "a/b", "a.b", "line\nend", "nul"}) {
    const std::string name = attempt == "nul" ? std::string("a\0b", 3) : attempt;
    EXPECT_FAILS(ask(with([&](auto& r) { r.attempt = name; }), 1), InvalidArgument, "cannot stand in a file name");
  }
  EXPECT_FAILS(ask(with([](auto& r) { r.attempt.assign(100'000, 'a'); }), 1), InvalidArgument, "100000 bytes");
  EXPECT_FAILS(ask(good, 2), StaleView, "in view 1", "in view 2");
  EXPECT_THAT(ask(with([](auto& r) { r.version = ~Step{0}; }), 1).problem, HasSubstr("another version"));
  EXPECT_THAT(ask(with([](auto& r) { r.version = 1u << 20; }), 1).problem, HasSubstr("another version"));
  EXPECT_EQ(files_in_all(), 0u) << "nothing was written anywhere";
  EXPECT_EQ(ask(good, 1).problem, "") << "and nothing is left of all that";
  connection->close();
}

TEST_P(SaveTest, RefusesTablesWithoutValues) {
  client.open(kTables, tables());
  EXPECT_THAT(client.save({.version = 0, .attempt = "a"}).problem, HasSubstr("another version than 0"));
  client.assign();
  EXPECT_EQ(saver.save(client, 0, 0, optim::Rule::kAdam), "");
}

TEST(Save, ServerWithoutAFolderReportsIt) {
  const TempFolder folder;
  ServerOptions options = server_options();
  options.checkpoints = folder / "checkpoints";
  const Server reply(options);
  const Server untold(server_options());
  net::EventLoop loop("client");
  const auto view = cluster::first_view(1, {reply.address(), untold.address()});
  Client client(loop, client_options(view, 1, net::Transport::kShm));
  client.open(kTables, options_of({}));
  client.assign();
  client.pull();
  EXPECT_FALSE(client.servers_save());
  EXPECT_FAILS(client.save({.version = 0, .attempt = "a"}), InvalidArgument, "TRIREME_RUN_DIR");
}

// ---- Backup workers: steps go on without the slowest, which may be the chief.

/// Each step adds 1 to Adagrad's only state array, whoever takes part, and the same to all parameters: whatever is of
/// another version than the rest shows.
void expect_one_version(const TablesState& state, Step step) {
  EXPECT_EQ(state.updates, step);
  for (const TableState& table : state.tables) {
    for (const float value : table.state.at(0)) ASSERT_EQ(value, static_cast<float>(step));
    for (const float value : table.parameters) ASSERT_EQ(value, table.parameters.front());
  }
}

TEST_P(SurvivalTest, EveryCheckpointHoldsOneStepEvenWithBackupWorkers) {
  constexpr Step kSteps = 60;
  constexpr Step kEvery = 4;
  constexpr std::uint32_t kWorkers = 4;
  const TempFolder folder;
  ServerOptions server = server_options();
  server.checkpoints = folder / "checkpoints";
  const Server one(server);
  const Server two(server);
  const auto view = cluster::first_view(kWorkers, {one.address(), two.address()}, 2);
  Client::TableOptions tables = options_of({.backup_workers = 2}, optim::Rule::kAdagrad);
  tables.checkpoint_every = kEvery;
  std::atomic<Step> asked_for{0};
  std::vector<Step> saved;
  Saver saver(server.checkpoints);

  const auto take_part = [&](Rank rank) {
    net::EventLoop loop("worker");
    Client client(loop, client_options(view, view.workers[rank].id, GetParam()));
    client.open(kTables, tables);
    if (rank == 0) client.assign();
    client.pull();
    RandomStream random(rank);
    for (Step version = 0; version < kSteps;) {
      // Nobody gets so far ahead of the chief that it asks for what is kept no more.
      while (rank != 0 && version + 1 >= asked_for.load() + 2 * kEvery) std::this_thread::yield();
      if (random.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
      std::ranges::fill(client.all_gradients(), 3.0f);
      const std::uint32_t all[] = {0, 1, 2};
      client.push(all, {.step = version, .lanes = {rank, 1}, .samples = 3, .lr = 0.01});
      const Step before = std::exchange(version, client.finish().newest);
      const Step due = version - version % kEvery;
      if (rank != 0 || due <= before) continue;
      EXPECT_EQ(saved.empty() ? "" : saver.end(), "");
      const auto outcome = client.save({.version = due, .attempt = "launch-1"});
      asked_for.store(due);
      EXPECT_EQ(outcome.problem, "") << due;
      if (!outcome.problem.empty()) continue;
      saver.begin(client, due, optim::Rule::kAdagrad, "launch-1", outcome);
      saved.push_back(due);
    }
    client.leave();
    if (rank != 0) return;
    EXPECT_EQ(saver.end(), "");
    for (const Step step : saved) expect_one_version(saver.read(client, step), step);
  };
  std::vector<std::jthread> workers;
  for (Rank rank = 0; rank < kWorkers; ++rank) workers.emplace_back(take_part, rank);
  workers.clear();
  std::vector<Step> expected;
  for (Step step = kEvery; step <= kSteps; step += kEvery) expected.push_back(step);
  EXPECT_EQ(saved, expected);
}

}  // namespace
}  // namespace trireme::ps
