// `trireme eval`, `predict` and `generate`, by whole jobs of real processes.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class ModelUse : public ::testing::Test {
 protected:
  /// LeNet on small images, with a checkpoint each epoch.
  void train() {
    const Outcome trained =
        run_trireme(folder_, {"train", "--data-dir", images_.string(), "--batch", "32", "--threads", "1", "--epochs",
                              "3", "--keep-checkpoints", "0", "--out", "run", "--json"});
    ASSERT_EQ(trained.status, 0) << trained.err;
    result_ = trained.json();
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  nlohmann::json result_;
};

TEST_F(ModelUse, EvalGivesTheBitsOfTheTrainingOnAnyNumberOfWorkers) {
  train();
  for (const char* workers : {"1", "2", "3"}) {
    const Outcome scores = run_trireme(folder_, {"eval", "run", "-w", workers, "--json"});
    ASSERT_EQ(scores.status, 0) << scores.err;
    EXPECT_EQ(scores.json().at("loss"), result_.at("test_loss")) << workers;
    EXPECT_EQ(scores.json().at("metrics")[0].at("value"), result_.at("test_accuracy"));
  }
  const Outcome told = run_trireme(folder_, {"eval", "run", "--checkpoint", "20"});
  EXPECT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.out, AllOf(HasSubstr("100 samples"), HasSubstr("accuracy ")));
  EXPECT_EQ(run_trireme(folder_, {"eval", "run", "--checkpoint", "best", "--json"}).status, 0);
}

TEST_F(ModelUse, PredictKeepsTheOrderOfRowsWhateverTheNumberOfWorkers) {
  train();
  const Outcome alone = run_trireme(folder_, {"predict", "run", "--probabilities"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  const Outcome three = run_trireme(folder_, {"predict", "run", "--probabilities", "-w", "3"});
  EXPECT_EQ(three.out, alone.out);
  const auto rows = lines_of(alone.out);
  ASSERT_EQ(rows.size(), 1u + 100);
  EXPECT_EQ(rows[0], "0,1,2,3,4,5,6,7,8,9");
  ASSERT_EQ(run_trireme(folder_, {"predict", "run", "-o", "classes.npy", "-w", "2"}).status, 0);
  const std::string classes = read_file(folder_ / "classes.npy");
  EXPECT_THAT(classes, HasSubstr("{'descr': '<i8', 'fortran_order': False, 'shape': (100,), }"));
  EXPECT_EQ(classes.size() % 64, (100 * 8) % 64);
  const auto text = lines_of(run_trireme(folder_, {"predict", "run"}).out);
  std::int64_t last = -1;
  std::memcpy(&last, classes.data() + classes.size() - sizeof last, sizeof last);
  EXPECT_EQ(text.back(), std::to_string(last));
}

TEST_F(ModelUse, RowsOfAnotherTableAreScaledAsTheOneItWasTrainedOn) {
  const auto write = [&](const char* name, int first, int count) {
    std::ofstream file(folder_ / name);
    file << "size,weight,kind\n";
    for (int i = first; i < first + count; ++i)
      file << i % 40 << ',' << 1000 + i % 7 << ',' << (i % 40 > 19 ? 1 : 0) << '\n';
  };
  write("all.csv", 0, 400);
  write("few.csv", 38, 4);  // 38, 39, 0, 1
  ASSERT_EQ(run_trireme(folder_, {"train", "--data", "all.csv", "--model", "mlp", "--epochs", "20", "--lr", "0.01",
                                  "--out", "run"})
                .status,
            0);
  const Outcome few = run_trireme(folder_, {"predict", "run", "few.csv"});
  EXPECT_THAT(few.out, EndsWith("\n1\n1\n0\n0\n")) << few.err;
  const Outcome scores = run_trireme(folder_, {"eval", "run", "few.csv", "--json"});
  EXPECT_EQ(scores.json().value("samples", 0), 4) << scores.err;
}

TEST_F(ModelUse, WhatDoesNotFitIsRefusedWithTheFieldsName) {
  train();
  write_file_atomically(folder_ / "rows.csv", as_bytes("a,b\n1,0\n2,1\n"));
  const Outcome rows = run_trireme(folder_, {"predict", "run", "rows.csv"});
  EXPECT_EQ(rows.status, 2);
  EXPECT_THAT(rows.err, AllOf(HasSubstr("rows.csv is of kind 'table'"), HasSubstr("trained on 'fashion-mnist'")));
  const Outcome step = run_trireme(folder_, {"eval", "run", "--checkpoint", "7"});
  EXPECT_EQ(step.status, 2);
  EXPECT_THAT(step.err, HasSubstr("no complete checkpoint of step 7"));
  EXPECT_THAT(run_trireme(folder_, {"eval", "run", "--checkpoint", "newest"}).err, HasSubstr("a step, best or last"));
  EXPECT_THAT(run_trireme(folder_, {"predict", "run", "-o", "x.txt"}).err, HasSubstr(".csv or .npy"));
  EXPECT_THAT(run_trireme(folder_, {"generate", "run", "--prompt", "a"}).err,
              HasSubstr("only a language-model generates"));
  EXPECT_THAT(run_trireme(folder_, {"eval", "nowhere"}).err, HasSubstr("there is no run folder"));
  std::filesystem::remove(folder_ / "run/samples.json");
  EXPECT_THAT(run_trireme(folder_, {"eval", "run"}).err, HasSubstr("there is no samples.json"));
  write_file_atomically(folder_ / "run/samples.json", as_bytes("{\"fields\": [{}]}"));
  EXPECT_THAT(run_trireme(folder_, {"eval", "run"}).err, HasSubstr("does not describe samples"));
}

}  // namespace
}  // namespace trireme::system_test
