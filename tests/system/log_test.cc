// The logs of a run: whoever writes a line, it says when, how serious it is, and which process it was.

#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Logs : public ::testing::Test {
 protected:
  /// A program of one's own, of two workers and a server, which is not used.
  Outcome run(std::vector<std::string> flags, const Program::Environment& env = {}) {
    std::vector<std::string> words{"run", "-w", "2", "-s", "1", "--overwrite", "--out", (folder_ / "run").string()};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", TRIREME_BINARY_DIR "/own_loop", images_.string(), "20"});
    return run_trireme(folder_, words, env);
  }

  std::string log(const std::string& process) const { return read_file(folder_ / "run" / "logs" / (process + ".log")); }

  /// The levels of the lines that the library logged; a test failure if one does not say that it is of `role`.
  static std::set<std::string> levels(const std::string& log, const std::string& role) {
    static const std::regex line_of_ours(R"((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\w+) +(.*event=.*))");
    std::set<std::string> levels;
    std::istringstream text(log);
    for (std::string line; std::getline(text, line);) {
      std::smatch parts;
      if (!std::regex_match(line, parts, line_of_ours)) continue;
      levels.insert(parts[2]);
      EXPECT_TRUE(parts[3].str().starts_with("[" + role + "] ")) << line;
    }
    return levels;
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Logs, LinesOfAProgramOfOnesOwnSayWhoWroteThem) {
  const Outcome outcome = run({});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const std::string slot : {"0", "1"}) {
    const std::string text = log("worker-" + slot);
    EXPECT_EQ(levels(text, "worker " + slot).count("info"), 1u) << text;
    EXPECT_THAT(text, HasSubstr("event=group_formed"));
  }
  EXPECT_THAT(log("worker-0"), HasSubstr("test accuracy")) << "what a program prints is there too";
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("test accuracy"));
  EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("event="))) << "routine is not for those who only watch";
}

TEST_F(Logs, LevelReachesEveryProcess) {
  const std::vector<std::pair<std::string, std::string>> processes{
      {"master", "master"}, {"server-0", "server 0"}, {"worker-0", "worker 0"}, {"worker-1", "worker 1"}};
  ASSERT_EQ(run({"--log-level", "error"}).status, 0);
  for (const auto& [name, role] : processes) EXPECT_EQ(levels(log(name), role), std::set<std::string>{}) << name;
  ASSERT_EQ(run({}, {{"TRIREME_LOG_LEVEL", "warning"}}).status, 0);
  for (const auto& [name, role] : processes) EXPECT_EQ(levels(log(name), role).count("info"), 0u) << name;
  ASSERT_EQ(run({"--log-level", "info"}, {{"TRIREME_LOG_LEVEL", "error"}}).status, 0);
  for (const auto& [name, role] : processes) EXPECT_EQ(levels(log(name), role).count("info"), 1u) << name;
}

}  // namespace
}  // namespace trireme::system_test
