#include "base/log.h"

#include <csignal>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/events.h"
#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::istringstream text(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Puts the log back to standard error, whatever the test did to it.
class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { set_up_logging({.level = LogLevel::kWarn}); }

  TempFolder folder_;
};

TEST(LogLevels, AreParsed) {
  EXPECT_EQ(parse_log_level("--log-level", "debug"), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("--log-level", "warning"), LogLevel::kWarn);
  try {
    parse_log_level("--log-level", "inf");
    FAIL() << "accepted";
  } catch (const InvalidArgument& problem) {
    EXPECT_STREQ(problem.what(), "--log-level inf (did you mean 'info'?): use debug, info, warning, error");
  }
}

TEST_F(LogTest, RoutineIsToldFromWhatPeopleWantToSee) {
  set_up_logging({.role = "worker 0", .file = folder_ / "log", .level = LogLevel::kDebug, .to_stderr = false});
  log_debug("a", "one");
  log_info("b", "two");
  log_warn("c", "three");
  log_error("d", "four");
  std::vector<bool> routine;
  for (const std::string& line : lines_of(folder_ / "log")) routine.push_back(is_routine(line));
  EXPECT_EQ(routine, (std::vector<bool>{true, true, false, false}));
  EXPECT_FALSE(is_routine("test accuracy 93.10 %"));
  EXPECT_FALSE(is_routine(""));
}

TEST(FormatEvent, ShowsEachKindOfValue) {
  const std::string word = "lenet";
  EXPECT_EQ(format_event("joined", "joined the job",
                         {{"view", 1},
                          {"bytes", std::uint64_t{18446744073709551615u}},
                          {"left", -3},
                          {"loss", 0.1},
                          {"rate", 0.1f},
                          {"ok", true},
                          {"model", word},
                          {"mode", "bsp"}}),
            "joined the job event=joined view=1 bytes=18446744073709551615 left=-3 loss=0.1 rate=0.1 ok=true "
            "model=lenet mode=bsp");
}

TEST(FormatEvent, QuotesValuesThatAreNotOneWord) {
  EXPECT_EQ(
      format_event("k", "m", {{"a", "two words"}, {"b", ""}, {"c", "k=v"}, {"d", "say \"hi\""}, {"e", "back\\slash"}}),
      R"(m event=k a="two words" b="" c="k=v" d="say \"hi\"" e="back\\slash")");
}

TEST(FormatEvent, EscapesLineBreaksAndControlCharacters) {
  EXPECT_EQ(format_event("key", "first\nsecond", {{"text", "a\r\n\tb"}, {"esc", "\x1b[2J"}, {"del", "\x7f"}}),
            R"(first\nsecond event=key text="a\r\n\tb" esc="\x1b[2J" del="\x7f")");
}

TEST_F(LogTest, EventsAreReadBackAsTheyWereLogged) {
  set_up_logging({.role = "worker 1", .file = folder_ / "log", .to_stderr = false});
  const std::string text = "two words, k=v, \"quoted\", back\\slash,\r\n\ta line\x1b\x7f";
  log_info("view_formed", "formed a view", {{"view", 3}, {"ok", true}, {"empty", ""}, {"text", text}});
  log_info("alone", "without fields");
  const auto events = events_in("what the process printed\n" + read_file(folder_ / "log"));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].key, "view_formed");
  EXPECT_EQ(events[0].fields,
            (std::map<std::string, std::string>{{"view", "3"}, {"ok", "true"}, {"empty", ""}, {"text", text}}));
  EXPECT_EQ(events[1].key, "alone");
  EXPECT_TRUE(events[1].fields.empty());
  EXPECT_THAT(read_file(folder_ / "log"), HasEvent("view_formed", {{"view", 3}, {"ok", true}, {"text", text}}));
  EXPECT_THAT(read_file(folder_ / "log"), Not(HasEvent("view_formed", {{"view", 4}})));
  EXPECT_THAT(read_file(folder_ / "log"), Not(HasEvent("view_formed", {{"member", "worker 1"}})));
}

TEST_F(LogTest, LineHasTimeLevelRoleMessageAndFields) {
  set_up_logging({.role = "worker 1", .file = folder_ / "logs/worker-1.log", .to_stderr = false});
  log_info("joined", "joined the job", {{"view", 1}, {"servers", 2}});
  log_error("gone", "100% {} gone");
  const auto lines = lines_of(folder_ / "logs/worker-1.log");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z info    "
                                     "\\[worker 1\\] joined the job event=joined view=1 servers=2"));
  EXPECT_THAT(lines[1], HasSubstr("error   [worker 1] 100% {} gone event=gone"));
}

TEST_F(LogTest, RoleWithPatternCharactersIsShownAsItIs) {
  set_up_logging({.role = "50%v", .file = folder_ / "log", .to_stderr = false});
  log_warn("greeting", "hello");
  EXPECT_THAT(read_file(folder_ / "log"), HasSubstr("[50%v] hello"));
}

TEST_F(LogTest, LevelSuppressesLowerLevels) {
  set_up_logging({.role = "server 0", .file = folder_ / "log", .level = LogLevel::kWarn, .to_stderr = false});
  log_debug("one", "one");
  log_info("two", "two");
  log_warn("three", "three");
  EXPECT_THAT(read_file(folder_ / "log"),
              ::testing::AllOf(Not(HasSubstr("two")), HasSubstr("warning [server 0] three")));
}

TEST_F(LogTest, LinesSurviveAProcessThatIsKilled) {
  ::testing::FLAGS_gtest_death_test_style = "fast";  // a plain fork, which knows this test's folder
  const auto path = folder_ / "log";
  EXPECT_EXIT(
      {
        set_up_logging({.file = path, .to_stderr = false});
        log_info("last", "last words");
        std::raise(SIGKILL);
      },
      ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_THAT(read_file(path), HasSubstr("last words"));
}

TEST_F(LogTest, AFullDiskDoesNotStopTheCaller) {
  set_up_logging({.file = "/dev/full", .to_stderr = false});
  ::testing::internal::CaptureStderr();
  log_error("lost", "lost");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("cannot write /dev/full"));
}

TEST_F(LogTest, SettingUpAgainMovesTheLogAndAppends) {
  set_up_logging({.file = folder_ / "a", .to_stderr = false});
  log_info("first", "first");
  set_up_logging({.file = folder_ / "b", .to_stderr = false});
  log_warn("second", "second");
  set_up_logging({.file = folder_ / "a", .to_stderr = false});
  log_warn("third", "third");
  EXPECT_EQ(lines_of(folder_ / "a").size(), 2u);
  EXPECT_EQ(lines_of(folder_ / "b").size(), 1u);
}

TEST_F(LogTest, GoesToStandardErrorWhenAsked) {
  ::testing::internal::CaptureStderr();
  set_up_logging({.role = "master", .level = LogLevel::kInfo, .to_stderr = true});
  log_info("listening", "listens", {{"port", 4821}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("info    [master] listens event=listening port=4821\n"));
}

TEST(LogDefaultDeathTest, BeforeSetUpOnlyWarningsAndErrorsGoToStandardError) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a new process, in which nobody set up logging
  EXPECT_EXIT(
      {
        log_info("quiet", "quiet");
        log_warn("loud", "loud");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), ::testing::AllOf(HasSubstr("warning loud"), Not(HasSubstr("quiet"))));
}

TEST_F(LogTest, UnopenableFileIsNamedAndTheOldLogIsKept) {
  set_up_logging({.file = folder_ / "log", .to_stderr = false});
  try {
    set_up_logging({.file = folder_ / "log/below-a-file", .to_stderr = false});
    FAIL() << "opened a file below a file";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "log/below-a-file").string()));
  }
  log_warn("still_here", "still here");
  EXPECT_EQ(lines_of(folder_ / "log").size(), 1u);
}

TEST_F(LogTest, LinesOfManyThreadsDoNotMixWhileTheLogMoves) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  set_up_logging({.role = "a", .file = folder_ / "log", .to_stderr = false});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i)
          log_info("line", "a line", {{"thread", t}, {"i", i}, {"text", "some words here"}});
      });
    }
    for (int i = 0; i < 20; ++i) set_up_logging({.role = "b", .file = folder_ / "log", .to_stderr = false});
  }
  std::set<std::string> seen;
  for (const std::string& line : lines_of(folder_ / "log")) {
    ASSERT_THAT(
        line, MatchesRegex(".*Z info    \\[[ab]\\] a line event=line thread=[0-3] i=[0-9]+ text=\"some words here\""));
    seen.insert(line.substr(line.find("thread=")));
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kThreads * kLines));
}

}  // namespace
}  // namespace trireme
