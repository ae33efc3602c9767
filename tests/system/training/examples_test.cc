// The programs of examples/ as users start them, on small generated data. own_model: train_main_test.cc; own_loop and
// fashion_mnist have tests of their own, too.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

class Example : public ::testing::Test {
 protected:
  Outcome run(const std::string& name, Flags words) {
    words.insert(words.begin(), std::string(TRIREME_BINARY_DIR) + "/" + name);
    Outcome outcome = Program(folder_, words).wait(120s);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    return outcome;
  }

  /// The number behind `words` in what was printed; NaN if there is none.
  static double number_after(const std::string& text, const std::string& words) {
    const std::size_t at = text.find(words);
    EXPECT_NE(at, std::string::npos) << "'" << words << "' in: " << text;
    return at == std::string::npos ? NAN : std::stod(text.substr(at + words.size()));
  }

  /// A text of few words, over and over.
  std::string write_text(const std::string& name, int lines) {
    std::ofstream file(folder_ / name);
    for (int i = 0; i < lines; ++i) file << "It is a truth that the ship has " << i % 3 + 1 << " banks of oars.\n";
    return (folder_ / name).string();
  }

  TempFolder folder_;
};

TEST_F(Example, Gpt) {
  const Outcome outcome = run("gpt", {write_text("ship.txt", 400), "200"});
  EXPECT_LT(number_after(outcome.out, "bits per byte "), 2.5) << "of 8; letters alone have 4";
}

TEST_F(Example, ResNet) {
  EXPECT_GT(number_after(run("resnet", {}).out, "test accuracy "), 20) << "of ten classes, after 60 steps";
}

TEST_F(Example, Tabular) { EXPECT_LT(number_after(run("tabular", {"10"}).out, "rmse "), 30); }

TEST_F(Example, TwoInputs) {
  const Outcome job = run("two_inputs", {});
  EXPECT_GT(number_after(job.out, "test accuracy "), 80);
}

TEST_F(Example, FineTuning) {
  const Outcome outcome = run("fine_tuning", {write_text("long.txt", 400), write_text("short.txt", 60)});
  EXPECT_THAT(outcome.out, HasSubstr("took over 28 of 28 tensors"));
  EXPECT_LT(number_after(outcome.out, "the second: "), 5.0) << "it begins where the first ended, not at 8";
}

TEST_F(Example, MovieLens) {
  std::ofstream file(folder_ / "ratings.csv");
  file << "userId,movieId,rating,timestamp\n";
  for (int i = 0; i < 3000; ++i) {
    const int user = i % 40, movie = i * 7 % 61;
    file << user << ',' << movie << ',' << 2.5 + user % 3 * 0.5 + movie % 4 * 0.5 << ",0\n";  // kind users, good movies
  }
  file.close();
  const Outcome outcome = run("movielens", {(folder_ / "ratings.csv").string(), "40"});
  EXPECT_LT(number_after(outcome.out, "rmse "), 0.4) << "0.7 is what the mean alone gives";
  Program missing(folder_, {std::string(TRIREME_BINARY_DIR) + "/movielens", "nowhere.csv"});
  EXPECT_THAT(missing.wait().err, HasSubstr("trireme data get movielens"));
}

TEST_F(Example, TensorParallel_SameBitsForAnyNumberOfProcesses) {
  const Outcome alone = run("tensor_parallel", {"100"});
  EXPECT_LT(number_after(alone.out, "step 100: loss "), 5.5) << "ln 997 is 6.9";
  const auto sum_in = [](const std::string& out) {
    const std::size_t at = out.find("the sum of all is ");
    return at == std::string::npos ? out : out.substr(at, out.find(';', at) - at);
  };
  for (const std::string workers : {"2", "4"}) {
    const std::string example = std::string(TRIREME_BINARY_DIR) + "/tensor_parallel";
    Program job(folder_, trireme({"run", "-w", workers, "-s", "0", "--out", "tp" + workers, "--", example, "100"}));
    const Outcome outcome = job.wait(120s);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_EQ(sum_in(outcome.err), sum_in(alone.out));
    EXPECT_LT(number_after(outcome.err, "step 100: loss "), 5.5);
  }
}

}  // namespace
}  // namespace trireme::system_test
