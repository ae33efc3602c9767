#include "observe/metrics_file.h"

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "tests/support/events.h"
#include "tests/support/temp_folder.h"

namespace trireme::observe {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

void put(const std::filesystem::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<json> rows_of(const std::filesystem::path& path) {
  std::istringstream text(read_file(path));
  std::vector<json> rows;
  for (std::string line; std::getline(text, line);) rows.push_back(json::parse(line));
  return rows;
}

class MetricsFileTest : public ::testing::Test {
 protected:
  ~MetricsFileTest() override { set_up_logging({.level = LogLevel::kWarn}); }

  void log_to_file() { set_up_logging({.file = folder_ / "log", .to_stderr = false}); }

  TempFolder folder_;
  const std::filesystem::path path_ = folder_ / "metrics.jsonl";
};

TEST_F(MetricsFileTest, EachRowIsALineThatCanBeReadAtOnce) {
  MetricsFile file(path_);
  file.append({{"step", 1}, {"loss", 0.5}, {"note", "two\nlines"}});
  EXPECT_EQ(read_file(path_), R"({"loss":0.5,"note":"two\nlines","step":1})"
                              "\n");
  file.append({{"step", 2}});
  EXPECT_EQ(rows_of(path_).size(), 2u);
  EXPECT_TRUE(file.healthy());
}

TEST_F(MetricsFileTest, AppendsToEarlierRows) {
  MetricsFile(path_).append({{"step", 1}});
  MetricsFile(path_).append({{"step", 2}});
  EXPECT_EQ(rows_of(path_), (std::vector<json>{{{"step", 1}}, {{"step", 2}}}));
}

TEST_F(MetricsFileTest, NonFiniteNumbersBecomeNullAndAreNamed) {
  MetricsFile file(path_);
  file.append({{"step", 3}, {"loss", NAN}, {"test", {{"loss", -INFINITY}, {"list", {1.0, INFINITY}}}}});
  EXPECT_EQ(rows_of(path_).at(0), json::parse(R"({"step": 3, "loss": null, "test": {"loss": null, "list": [1.0, null]},
                            "not_finite": {"loss": "nan", "test.loss": "-inf", "test.list.1": "inf"}})"));
}

TEST_F(MetricsFileTest, BytesThatAreNotUtf8DoNotStopTheRun) {
  MetricsFile file(path_);
  file.append({{"note", "\xff"}});
  EXPECT_EQ(rows_of(path_).size(), 1u);
}

TEST_F(MetricsFileTest, ARowMustBeAnObject) {
  MetricsFile file(path_);
  EXPECT_THROW(file.append(json::array({1, 2})), InvalidArgument);
  EXPECT_EQ(read_file(path_), "");
}

TEST_F(MetricsFileTest, ATornLastLineIsCutOff) {
  log_to_file();
  put(path_, "{\"step\":1}\n{\"step\":2}\n{\"ste");
  MetricsFile(path_).append({{"step", 3}});
  EXPECT_EQ(read_file(path_), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  EXPECT_THAT(read_file(folder_ / "log"), HasEvent("row_cut_off", {{"bytes", 5}}));
}

TEST_F(MetricsFileTest, ATornFirstLineAndALongOneAreCutOffToo) {
  log_to_file();
  put(path_, "{\"step\":");
  MetricsFile(path_).append({{"step", 1}});
  EXPECT_EQ(read_file(path_), "{\"step\":1}\n");
  put(path_, "{\"step\":1}\n{\"text\":\"" + std::string(200'000, 'x'));
  MetricsFile(path_).append({{"step", 2}});
  EXPECT_EQ(read_file(path_), "{\"step\":1}\n{\"step\":2}\n");
  put(path_, std::string("{\"step\":1}\n\0\0\0\0", 15));
  MetricsFile(path_).append({{"step", 2}});
  EXPECT_EQ(read_file(path_), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(MetricsFileTest, AnotherKindOfFileIsLeftAlone) {
  put(path_, "dear diary");
  EXPECT_THROW(MetricsFile{path_}, Corrupt);
  EXPECT_EQ(read_file(path_), "dear diary");
}

TEST_F(MetricsFileTest, ASecondWriterIsRefused) {
  MetricsFile first(path_);
  try {
    MetricsFile second(path_);
    FAIL() << "two writers";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr(path_.string()), HasSubstr("another run")));
  }
}

TEST_F(MetricsFileTest, AMissingFolderIsNamed) {
  EXPECT_THROW(MetricsFile(folder_ / "missing/metrics.jsonl"), IoError);
}

TEST_F(MetricsFileTest, FullDiskIsLoggedOnceAndTheRunContinues) {
  log_to_file();
  MetricsFile file("/dev/full");
  for (int step = 0; step < 3; ++step) file.append({{"step", step}});
  EXPECT_FALSE(file.healthy());
  const std::string log = read_file(folder_ / "log");
  EXPECT_EQ(count_events(log, {"file_write_failed", {{"reason", "No space left on device"}}}), 1u) << log;
  EXPECT_EQ(events_in(log).size(), 1u) << log;
}

TEST_F(MetricsFileTest, ARowThatFitsOnlyInPartIsTakenBack) {
  log_to_file();
  MetricsFile file(path_);
  file.append({{"step", 1}});

  // A limit on file sizes stands in for a disk that is almost full: the system takes the first bytes of the row.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  file.append({{"text", std::string(8000, 'x')}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_FALSE(file.healthy());
  file.append({{"step", 3}});
  EXPECT_EQ(read_file(path_), "{\"step\":1}\n{\"step\":3}\n");
}

TEST_F(MetricsFileTest, RowsOfManyThreadsDoNotMix) {
  MetricsFile file(path_);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&file, t] {
        for (int i = 0; i < 100; ++i) file.append({{"thread", t}, {"i", i}});
      });
    }
  }
  EXPECT_EQ(rows_of(path_).size(), 400u);
}

}  // namespace
}  // namespace trireme::observe
