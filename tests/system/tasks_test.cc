// Every ready task under every strategy, by whole jobs: the same bits for any number of workers where that is promised,
// also when everything is killed in the middle and resumed with other numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "tests/support/exhaustive.h"
#include "tests/system/long_job.h"

namespace trireme::system_test {
namespace {

using Flags = std::vector<std::string>;

Flags join(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A table of numbers, a word, a date, a quantity and three labels that follow from them.
std::string make_table() {
  RandomStream random(5);
  std::string text = "x,y,kind,day,size,big,odd,far\n";
  for (int row = 0; row < 400; ++row) {
    const double x = random.normal();
    const double y = random.normal();
    const std::string kind(1, static_cast<char>('a' + random.below(3)));
    const double size = 2 * x - y + (kind == "a" ? 1 : 0);
    text += fmt::format("{:.3f},{:.3f},{},2026-{:02}-{:02},{:.3f},{},{},{}\n", x, y, kind, 1 + random.below(12),
                        1 + random.below(28), size, size > 1 ? 1 : 0, kind == "b" ? 1 : 0, x * x + y * y > 2 ? 1 : 0);
  }
  return text;
}

struct TaskCase {
  std::string name;
  Flags flags;         // data and model; TABLE, TEXT and IMAGES stand for paths
  std::string metric;  // of the test set
};

std::vector<TaskCase> cases() {
  return {
      {"Classification", {"--data-dir", "IMAGES", "--model", "resnet20", "--augment", "shift:2,mirror"}, "accuracy"},
      {"MultiLabel",
       {"--data", "TABLE", "--target", "big,odd,far", "--ignore", "size", "--task", "multi-label", "--model",
        "wide-deep"},
       "exact_accuracy"},
      {"Regression",
       {"--data", "TABLE", "--target", "size", "--ignore", "big,odd,far", "--model", "wide-deep"},
       "rmse"},
      {"LanguageModel", {"--data", "TEXT", "--length", "32", "--model", "gpt-tiny:dropout=0.1"}, "bits_per_token"},
      {"Autoencoder", {"--data-dir", "IMAGES", "--task", "autoencoder", "--model", "mlp"}, "rmse"},
  };
}

class Tasks : public ::testing::TestWithParam<TaskCase> {
 protected:
  Tasks() {
    const std::filesystem::path images = make_images(folder_);
    write_file_atomically(folder_ / "table.csv", as_bytes(make_table()));
    std::string text;
    for (int i = 0; i < 500; ++i) text += "the oars of a trireme row in three banks, and all of them in time; ";
    write_file_atomically(folder_ / "text.txt", as_bytes(text));
    for (const std::string& flag : GetParam().flags) {
      data_.push_back(flag == "TABLE"    ? (folder_ / "table.csv").string()
                      : flag == "TEXT"   ? (folder_ / "text.txt").string()
                      : flag == "IMAGES" ? images.string()
                                         : flag);
    }
  }

  nlohmann::json train(const Flags& flags, const std::string& steps = "10") {
    const Outcome outcome =
        run_trireme(folder_, join(join({"train", "--json", "--lanes", "4", "--steps", steps, "--batch", "16",
                                        "--threads", "1", "--schedule", "constant", "--clip-norm", "1", "--ema", "0.5"},
                                       data_),
                                  flags));
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const nlohmann::json result = outcome.json();
    return result.is_object() ? result : nlohmann::json::object();
  }

  TempFolder folder_;
  Flags data_;
};

TEST_P(Tasks, TrainsUnderEveryStrategyWithTheSameBitsWherePromised) {
  const nlohmann::json alone = train({"--strategy", "allreduce", "-w", "1"});
  EXPECT_TRUE(alone.contains("test_" + GetParam().metric)) << alone.dump();
  std::vector<Flags> same{{"--strategy", "allreduce", "-w", "4"}, {"-w", "2", "-s", "2"}};
  if (exhaustive()) same.push_back({"--strategy", "allreduce", "-w", "2"});
  if (exhaustive()) same.push_back({"-w", "4", "-s", "1", "--transport", "tcp"});
  for (const Flags& flags : same) {
    const nlohmann::json result = train(flags);
    EXPECT_EQ(result.value("state_sha256", ""), alone.value("state_sha256", "?")) << flags[1];
    EXPECT_EQ(result.value("test_" + GetParam().metric, -1.0), alone.value("test_" + GetParam().metric, -2.0));
  }
  for (const Flags& flags :
       {Flags{"--consistency", "ssp:2"}, Flags{"--consistency", "asp"}, Flags{"--strategy", "local-sgd:3"}}) {
    EXPECT_EQ(train(join(flags, {"-w", "2"})).value("steps", 0), 10) << flags[1];
  }
}

TEST_P(Tasks, AResumedRunHasTheBitsOfOneThatWasNeverStopped) {
  const std::string whole = train({"-w", "2"}).value("state_sha256", "?");
  train({"-w", "2", "--out", "run"}, "4");
  const Outcome resumed =
      run_trireme(folder_, {"resume", "run", "--steps", "10", "-w", "3", "--strategy", "allreduce", "--json"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.json().value("state_sha256", ""), whole);
}

INSTANTIATE_TEST_SUITE_P(Ready, Tasks, ::testing::ValuesIn(cases()), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace trireme::system_test
