// Every ready task under every strategy, by whole jobs: the same bits for any number of workers where that is promised,
// also when everything is killed in the middle and resumed with other numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "tests/support/exhaustive.h"
#include "tests/system/training/long_job.h"

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

// ---- Scores on real data, on 2 cores: small versions of what GPUs train. Short ones always; longer ones, with bars
// that only a network which learns as it should gets over, with TRIREME_TEST_ALL.

struct Score {
  double value = 0;
  std::string output;
};

Score train_to(const TempFolder& folder, const Flags& flags, const std::string& metric) {
  const Outcome outcome = run_trireme(
      folder, join({"train", "--json", "-w", "2", "--strategy", "allreduce", "--threads", "1", "--lanes", "2"}, flags),
      {}, 280s);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return {outcome.status == 0 ? outcome.json().value("test_" + metric, -1.0) : -1.0, outcome.out};
}

TEST(Scores, ASmallResNetLearnsFashionMnist) {
  const TempFolder folder;
  const Flags common{"--data", "fashion-mnist", "--batch", "64",         "--optimizer", "nesterov", "--lr",
                     "0.1",    "--l2",          "0.0005",  "--schedule", "cosine",      "--groups", "1d:decay=0"};
  const bool all = exhaustive();
  const Score score =
      train_to(folder,
               join(common, all ? Flags{"--model", "resnet20:width=8", "--augment", "shift:2,mirror", "--epochs", "1"}
                                : Flags{"--model", "resnet20:width=4", "--steps", "120"}),
               "accuracy");
  EXPECT_GE(score.value, all ? 0.85 : 0.65) << score.output;
}

/// Text that every Debian has: the licences, about 200 KB of English.
std::string licences() {
  std::string text;
  for (const char* name : {"GPL-2", "GPL-3", "LGPL-2.1", "MPL-2.0", "Artistic", "GFDL-1.3", "Apache-2.0", "LGPL-3"}) {
    const std::filesystem::path file = std::filesystem::path("/usr/share/common-licenses") / name;
    if (std::filesystem::exists(file)) text += read_file(file);
  }
  return text;
}

TEST(Scores, ASmallGptLearnsEnglish) {
  const TempFolder folder;
  const std::string text = licences();
  ASSERT_GT(text.size(), 50'000u) << "the package base-files has them";
  const Flags common{"--data",      folder.write("text.txt", text).string(),
                     "--length",    "64",
                     "--batch",     "32",
                     "--optimizer", "adamw",
                     "--lr",        "0.003",
                     "--l2",        "0.1",
                     "--clip-norm", "1",
                     "--warmup",    "20"};
  const bool all = exhaustive();
  const Score score = train_to(folder, join(common, {"--model", "gpt-tiny:dropout=0", "--steps", all ? "1500" : "150"}),
                               "bits_per_token");
  EXPECT_GT(score.value, 0.5) << score.output;
  EXPECT_LE(score.value, all ? 2.1 : 3.9) << "a byte alone: about 4.4 bits; " << score.output;
}

}  // namespace
}  // namespace trireme::system_test
