// Data of several kinds through the command: what is in it, what is damaged, and training on it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DataCommand : public ::testing::Test {
 protected:
  std::string write_flights() {
    std::string rows = "date,delay,distance,origin\n";
    for (int i = 0; i < 200; ++i) {
      rows += fmt::format("0101{:02}{:02},{},{},{}\n", i % 24, i % 60, i % 3 == 0 ? 40 : -5, 300 + i,
                          i % 3 == 0 ? "MDW" : "PHX");
    }
    return folder_.write("flights.csv", rows).string();
  }

  Outcome data(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "data");
    return run_trireme(folder_, arguments);
  }

  TempFolder folder_;
};

TEST_F(DataCommand, TellsWhatIsInATable) {
  const std::string file = write_flights();
  EXPECT_THAT(data({"ls", file, "--target", "delay>15"}).out,
              AllOf(HasSubstr("200"), HasSubstr("numbers 6, categories 1 of 3 classes, delay>15 of 2 classes")));
  EXPECT_THAT(data({"show", file, "-n", "1"}).out, AllOf(HasSubstr("date:days="), HasSubstr("distance=300")));
  EXPECT_THAT(data({"stats", file, "--target", "delay"}).out,
              AllOf(HasSubstr("distance"), HasSubstr("399"), HasSubstr("MDW")));
}

TEST_F(DataCommand, CheckNamesDamageAndFails) {
  const Outcome sound = data({"check", write_flights()});
  EXPECT_EQ(sound.status, 0);
  EXPECT_THAT(sound.out, HasSubstr("200 samples are sound"));
  const Outcome damaged = data({"check", folder_.write("bad.csv", "x,y\n1,2\n1\n3,4\n5\n").string()});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr("line 3"), HasSubstr("line 5"), HasSubstr("2 damaged")));
}

TEST_F(DataCommand, SplitWritesTwoFiles) {
  EXPECT_EQ(data({"split", write_flights(), "--test-every", "4"}).status, 0);
  EXPECT_EQ(data({"ls", (folder_ / "flights.train.csv").string(), (folder_ / "flights.test.csv").string()}).status, 0);
  EXPECT_THAT(read_file(folder_ / "flights.test.csv"), HasSubstr("date,delay,distance,origin\n"));
}

TEST_F(DataCommand, ATableAsItIsTrainsAndItsEncodingIsKept) {
  const Outcome outcome = run_trireme(folder_, {"train", "--json", "--model", "wide-deep", "--data", write_flights(),
                                                "--target", "delay>15", "--workers", "2", "--batch", "20", "--epochs",
                                                "3", "--shard", "round-robin", "--out", (folder_ / "run").string()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto encoding = nlohmann::json::parse(read_file(folder_ / "run/data.json"));
  EXPECT_EQ(encoding["kind"], "table");
  EXPECT_EQ(encoding["table"]["columns"][3]["vocabulary"], (std::vector<std::string>{"MDW", "PHX"}));
}

TEST_F(DataCommand, LanesWithPartsOfTheirOwnGiveTheSameBitsOnAnyNumberOfWorkers) {
  const std::string file = write_flights();
  const auto parameters = [&](const std::string& workers, const std::string& shard) {
    const Outcome outcome =
        run_trireme(folder_, {"train", "--json", "--model", "wide-deep", "--data", file, "--target", "delay", "--batch",
                              "20", "--lanes", "2", "--workers", workers, "--shard", shard, "--out",
                              (folder_ / "run").string(), "--overwrite"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.json()["parameters_sha256"].get<std::string>();
  };
  const std::string one = parameters("1", "proportional:2,1");
  EXPECT_EQ(one, parameters("2", "proportional:2,1"));
  EXPECT_NE(one, parameters("2", "blocks"));
}

}  // namespace
}  // namespace trireme::system_test
