#include "observe/step_trace.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace trireme::observe {
namespace {

using Kind = StepEvent::Kind;

TEST(StepTrace, LinesAreWrittenAndRead) {
  const StepEvent event{.kind = Kind::kCommit, .at = 12, .step = 7, .view = 2, .lanes = {4, 2}};
  EXPECT_EQ(to_line(event), "commit 12 7 2 4 2\n");
  EXPECT_EQ(parse_line("commit 12 7 2 4 2"), event);
  const StepEvent unit{.at = 5, .step = 1, .view = 1, .lanes = {3, 1}, .unit = 7};
  EXPECT_EQ(to_line(unit), "begin 5 1 1 3 1 7\n");
  EXPECT_EQ(parse_line("begin 5 1 1 3 1 7"), unit);
  EXPECT_EQ(parse_line("enter 9 4 3 0 0"), (StepEvent{.kind = Kind::kEnter, .at = 9, .step = 4, .view = 3}));
  for (const char* wrong : {"", "begin", "began 1 2 3 4 5", "commit 1 2 3 4"}) EXPECT_FALSE(parse_line(wrong)) << wrong;
}

TEST(StepTrace, ReadsNewFilesOfWorkersThatJoin) {
  const TempFolder folder;
  TraceFollower catch_up(folder.path());
  EXPECT_TRUE(catch_up.next().empty());
  StepTrace first(folder.path(), 0, ::getpid());
  first.add({.kind = Kind::kBegin, .step = 3, .view = 1, .lanes = {0, 4}});
  StepTrace second(folder.path(), 1, ::getppid());
  second.add({.kind = Kind::kBegin, .step = 3, .view = 1, .lanes = {4, 4}});
  const auto events = catch_up.next();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].slot, 0u);
  EXPECT_EQ(events[0].pid, ::getpid());
  EXPECT_EQ(events[1].slot, 1u);
  EXPECT_EQ(events[1].lanes, (LaneRange{4, 4}));
  EXPECT_LE(events[0].at, events[1].at);
  EXPECT_TRUE(catch_up.next().empty());
  first.add({.kind = Kind::kCommit, .step = 3, .view = 1, .lanes = {0, 4}});
  ASSERT_EQ(catch_up.next().size(), 1u);
}

TEST(StepTrace, WaitsForCompleteLines) {
  const TempFolder folder;
  TraceFollower catch_up(folder.path());
  const std::string name = "steps-2-" + std::to_string(::getpid()) + ".log";
  folder.write(name, "begin 1 0 1 0 4\ncommit 2 0");
  EXPECT_EQ(catch_up.next().size(), 1u);
  folder.write(name, "begin 1 0 1 0 4\ncommit 2 0 1 0 4\n");
  const auto rest = catch_up.next();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].kind, Kind::kCommit);
  EXPECT_EQ(rest[0].slot, 2u);
}

TEST(StepTrace, ReadsTheFilesOfDeadWorkersToTheEnd) {
  const TempFolder folder;
  TraceFollower catch_up(folder.path());
  folder.write("steps-0-999999999.log", "begin 1 0 1 0 4\n");
  EXPECT_EQ(catch_up.next().size(), 1u);
}

TEST(StepTrace, RecognisesItsFileNames) {
  EXPECT_TRUE(is_step_trace("steps-0-12.log"));
  EXPECT_FALSE(is_step_trace("steps-0-12.log.old"));
  EXPECT_FALSE(is_step_trace("steps-0.log"));
}

}  // namespace
}  // namespace trireme::observe
