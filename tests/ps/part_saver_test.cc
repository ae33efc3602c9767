#include "ps/part_saver.h"

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "tests/support/eventually.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::ps {
namespace {

using ::testing::HasSubstr;

struct Ignore final : ChunkWaiter {
  void chunk_done(const StepOutcome& /*outcome*/) override {}
  void chunk_refused(const std::exception& /*reason*/) override {}
};

/// A server, member 2, that holds a table of 40 floats in view 1; worker 1 makes the steps.
struct PartSaverTest : ::testing::Test {
  PartSaverTest() {
    for (std::uint32_t i = 0; i < tables->layout().chunks().size(); ++i) {
      const std::vector<float> values(held->primary_of(i).parameters().size(), 1.5f);
      held->primary_of(i).assign(values, 1, std::make_shared<Ignore>());
    }
  }

  static JobTables job() {
    JobTables description{.tables = {{"weight", 40}}, .shards = cluster::kShardsPerServer};
    description.update.rule = optim::Rule::kMomentum;
    return description;
  }

  static std::unique_ptr<HeldShards> hold(const std::shared_ptr<const Tables>& tables, View number,
                                          net::EventLoop& loop, const HeldShards* before = nullptr) {
    cluster::ViewInfo view = cluster::first_view(1, {net::Address{}});
    view.view = number;
    return std::make_unique<HeldShards>(tables, view, 2, before, loop, ReplicaLinkOptions{});
  }

  /// One step of the only worker: every value goes down by 1.
  void step(Step number) {
    const std::vector<float> ones(40, 1.0f);
    for (std::uint32_t i = 0; i < tables->layout().chunks().size(); ++i) {
      held->primary_of(i).push({.view = 1,
                                .worker = 0,
                                .info = {.step = number, .lanes = {0, 1}, .samples = 1, .lr = 1},
                                .gradient = ones.data(),
                                .waiter = std::make_shared<Ignore>()});
    }
  }

  static SaveRequest part(Step version, std::string attempt = "a") {
    return {.version = version, .attempt = std::move(attempt), .part = 1, .parts = 2};
  }

  /// The index of part 1 once it is there: the part is complete then.
  checkpoint::PartIndex index(Step step, const std::string& attempt = "a") const {
    const auto where = folder / checkpoint::step_folder_name(step);
    const checkpoint::PartKey key{.step = step, .attempt = attempt, .part = 1, .parts = 2};
    const auto path = where / (key.stem() + ".json");
    for (const auto until = Deadline::in(kPatience); !std::filesystem::exists(path) && !until.passed();) {
      std::this_thread::yield();
    }
    return checkpoint::load_index(checkpoint::real_file_system(), where, key).index;
  }

  std::vector<float> values(Step step, const std::string& attempt = "a") const {
    const auto path = folder / checkpoint::step_folder_name(step) / (checkpoint::part_stem(1, 2, attempt) + ".bin");
    const std::string bytes = read_file(path);
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    return floats;
  }

  const TempFolder temporary;
  const std::filesystem::path folder = temporary / "checkpoints";
  net::EventLoop loop{"server"};
  std::shared_ptr<const Tables> tables =
      std::make_shared<Tables>(job(), std::make_shared<net::BufferPool>(), /*snapshots=*/true);
  std::unique_ptr<HeldShards> held = hold(tables, 1, loop);
  PartSaver saver{folder};
};

TEST_F(PartSaverTest, WritesParametersAndOptimizerStateOfItsChunks) {
  const SaveReply reply = saver.save(part(0), *held);
  EXPECT_EQ(reply.problem, "");
  EXPECT_EQ(reply.updates, 0);
  const checkpoint::PartIndex written = index(0);
  EXPECT_EQ(written.bytes, 2 * 40 * sizeof(float));
  std::set<std::string> tensors;
  for (const auto& piece : written.pieces) tensors.insert(piece.tensor);
  EXPECT_THAT(tensors, ::testing::ElementsAre("model/weight", "optimizer/weight/0"));
  EXPECT_EQ(std::ranges::count(values(0), 1.5f), 40);
}

TEST_F(PartSaverTest, WritesTheVersionAskedForWhenItsUpdateComesLater) {
  EXPECT_EQ(saver.save(part(1), *held).problem, "");
  step(0);
  step(1);  // too late to be in it
  EXPECT_EQ(index(1).step, 1);
  EXPECT_EQ(std::ranges::count(values(1), 0.5f), 40);
}

TEST_F(PartSaverTest, RefusesPastAndTooDistantVersions) {
  step(0);
  step(1);
  EXPECT_THAT(saver.save(part(1), *held).problem, HasSubstr("another version than 1"));
  EXPECT_THAT(saver.save(part(7), *held).problem, HasSubstr("another version than 7"));
  EXPECT_EQ(saver.save(part(2), *held).problem, "");
  EXPECT_EQ(index(2).step, 2);
}

TEST_F(PartSaverTest, NewRequestReplacesAWaitingOne) {
  EXPECT_EQ(saver.save(part(1, "first"), *held).problem, "");
  EXPECT_EQ(saver.save(part(0, "second"), *held).problem, "");
  EXPECT_EQ(index(0, "second").attempt, "second");
  EXPECT_FALSE(std::filesystem::exists(folder / checkpoint::step_folder_name(1)));
}

TEST_F(PartSaverTest, RefusesInvalidPartNumbers) {
  EXPECT_FAILS(saver.save({.attempt = "a", .part = 0, .parts = 2}, *held), InvalidArgument, "part 0 of 2");
  EXPECT_FAILS(saver.save({.attempt = "a", .part = 2, .parts = 2}, *held), InvalidArgument, "part 2 of 2");
  EXPECT_FAILS(saver.save({.attempt = "a", .part = 1, .parts = 1'000'000}, *held), InvalidArgument, "1000000");
}

TEST_F(PartSaverTest, RefusesAttemptsThatAreNotFileNames) {
  EXPECT_FAILS(saver.save(part(0, "../../etc/passwd"), *held), InvalidArgument, "file name");
  EXPECT_FAILS(saver.save(part(0, ""), *held), InvalidArgument, "file name");
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(PartSaverTest, RequestOfAViewThatHasEndedIsStale) {
  const auto next = hold(tables, 2, loop, held.get());
  EXPECT_FAILS(saver.save(part(0), *held), StaleView, "view 2", "view 1");
  EXPECT_EQ(saver.save(part(0), *next).problem, "");
  EXPECT_EQ(index(0).part, 1);
}

TEST_F(PartSaverTest, ContinuesAfterAFailedWrite) {
  std::ofstream(folder) << "a file where the folder should be";
  EXPECT_EQ(saver.save(part(0, "first"), *held).problem, "");
  EXPECT_EQ(saver.save(part(0, "second"), *held).problem, "");  // waits for the end of the first
  EXPECT_EQ(saver.save(part(0, "third"), *held).problem, "");
  EXPECT_TRUE(std::filesystem::is_regular_file(folder));
}

}  // namespace
}  // namespace trireme::ps
