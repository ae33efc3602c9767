#include "observe/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"

namespace trireme::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Progress midway() {
  return {.epoch = 1.92,
          .epochs = 5,
          .step = 192,
          .steps = 500,
          .samples_per_s = 12345,
          .loss = 0.43214,
          .metrics = {{"accuracy", 0.8725}},
          .clock_min = 190,
          .clock_max = 194,
          .seconds_left = 41.2,
          .note = "server 1 is slow"};
}

/// Columns of text in which each code point takes one; an independent count for what the line itself is made of.
int code_points(std::string_view text) {
  int count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

TEST(RenderProgress, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(
      render_progress(midway(), 200),
      "epoch 1.9/5  ━━━━━━━━━━━───────────────────  38 %  step 192/500  12.3k samples/s  loss 0.4321  acc 87.2 %  "
      "clocks 190–194  0:42 left  server 1 is slow");
}

TEST(RenderProgress, CustomLoopShowsStepsAndItsAverages) {
  const Progress progress{
      .step = 300, .open_ended = true, .steps_per_s = 41.04, .averages = {{"loss", 0.39214}, {"accuracy", 0.87}}};
  EXPECT_EQ(render_progress(progress, 200), "step 300  41 steps/s  accuracy 0.87  loss 0.3921");
}

TEST(RenderProgress, UnknownValuesAreDashes) {
  EXPECT_EQ(render_progress({}, 200, {.bar = false}), "epoch –  – %  step 0  – samples/s  loss –  – left");
  EXPECT_THAT(render_progress({.metrics = {{"accuracy", NAN}, {"rmse", NAN}}}, 200), HasSubstr("acc – %  rmse –"));
  EXPECT_THAT(render_progress({.epochs = 3}, 200), HasSubstr("epoch –/3"));
  EXPECT_THAT(render_progress({.samples_per_s = INFINITY, .seconds_left = INFINITY}, 200),
              ::testing::AllOf(HasSubstr("– samples/s"), HasSubstr("– left")));
  EXPECT_THAT(render_progress({.seconds_left = -1}, 200), HasSubstr("– left"));
}

TEST(RenderProgress, AnInfiniteLossIsShownAsSuch) {
  EXPECT_THAT(render_progress({.loss = INFINITY}, 200), HasSubstr("loss inf"));
}

TEST(RenderProgress, NumbersOfAnySizeStayShort) {
  EXPECT_THAT(render_progress({.samples_per_s = 950.4}, 200), HasSubstr("950 samples/s"));
  EXPECT_THAT(render_progress({.samples_per_s = 2.5e6}, 200), HasSubstr("2.5M samples/s"));
  EXPECT_THAT(render_progress({.loss = 0}, 200), HasSubstr("loss 0.0000"));
  EXPECT_THAT(render_progress({.loss = 1.5e-7}, 200), HasSubstr("loss 1.50e-07"));
  EXPECT_THAT(render_progress({.loss = -123456}, 200), HasSubstr("loss -1.23e+05"));
  EXPECT_THAT(render_progress({.seconds_left = 3723}, 200), HasSubstr("1:02:03 left"));
  EXPECT_THAT(render_progress({.seconds_left = 2.5 * 86400}, 200), HasSubstr("2 d 12 h left"));
  EXPECT_THAT(render_progress({.clock_min = 7, .clock_max = 7}, 200), HasSubstr("clock 7"));
}

TEST(RenderProgress, HundredPercentMeansFinished) {
  EXPECT_THAT(render_progress({.step = 9999, .steps = 10000}, 200), HasSubstr(" 99 %"));
  EXPECT_THAT(render_progress({.step = 10, .steps = 10}, 200), HasSubstr(" 100 %"));
  EXPECT_THAT(render_progress({.step = 11, .steps = 10}, 200), HasSubstr(" 100 %"));
  EXPECT_THAT(render_progress({.epoch = 2.5, .epochs = 5}, 200), HasSubstr(" 50 %"));
}

TEST(RenderProgress, DropsTheLeastImportantFirst) {
  EXPECT_EQ(render_progress(midway(), 7), "38%");
  EXPECT_EQ(render_progress(midway(), 20), "38% loss 0.4321");
  EXPECT_EQ(render_progress(midway(), 30), "38% loss 0.4321 0:42 left");
  const std::string usual = render_progress(midway(), 80);
  EXPECT_THAT(usual, ::testing::AllOf(HasSubstr("epoch 1.9/5"), HasSubstr("acc 87.2%"), HasSubstr("server 1 is slow")));
  EXPECT_THAT(usual, Not(HasSubstr("spread")));
}

TEST(RenderProgress, AUsualTerminalShowsEverythingInFewerWords) {
  Progress progress = midway();
  progress.note.clear();
  EXPECT_EQ(render_progress(progress, 79),
            "epoch 1.9/5 ━━──── 38% 192/500 12.3k/s loss 0.4321 acc 87.2% spread 4 0:42 left");
}

TEST(RenderProgress, IsNeverWiderThanAsked) {
  std::vector<Progress> cases = {{}, midway()};
  cases.push_back({.epoch = 1e300,
                   .epochs = ~0ull,
                   .step = ~0ull,
                   .steps = ~0ull,
                   .samples_per_s = 1e300,
                   .loss = -1e300,
                   .metrics = {{"accuracy", 1e300}, {std::string(300, 'm'), 1e300}},
                   .clock_min = 1,
                   .clock_max = ~0ull,
                   .seconds_left = 1e300,
                   .note = std::string(300, 'x')});
  for (const Progress& progress : cases) {
    for (int columns = -1; columns <= 250; ++columns) {
      EXPECT_LE(code_points(render_progress(progress, columns)), std::max(columns, 0)) << columns;
    }
  }
}

TEST(RenderProgress, NoteCannotBreakTheLine) {
  const std::string line = render_progress({.note = "a\nb\x1b[2J\xff ünï"}, 200);
  EXPECT_THAT(line, EndsWith("a b [2J? ünï"));
}

TEST(RenderProgress, WideCharactersCountTwice) {
  std::string note;
  for (int i = 0; i < 30; ++i) note += "船";
  const std::string line = render_progress({.note = note}, 200, {.bar = false});
  const std::string shown = line.substr(line.find("left  ") + 6);
  EXPECT_LE(2 * code_points(shown) - 1, 40) << "every character but the ellipsis takes two columns";
  EXPECT_THAT(shown, EndsWith("…"));
}

TEST(RenderProgress, OnlyTheBarIsColoured) {
  std::string coloured = render_progress(midway(), 200, {.bar = true, .colour = true});
  for (const std::string code : {"\x1b[32m", "\x1b[0m"}) {
    const auto place = coloured.find(code);
    ASSERT_NE(place, std::string::npos);
    coloured.erase(place, code.size());
  }
  EXPECT_EQ(coloured, render_progress(midway(), 200));
}

TEST(ColourWanted, HonoursNoColorAndDumbTerminals) {
  EXPECT_TRUE(colour_wanted(nullptr, "xterm-256color"));
  EXPECT_TRUE(colour_wanted("", "xterm"));
  EXPECT_FALSE(colour_wanted("1", "xterm"));
  EXPECT_FALSE(colour_wanted(nullptr, "dumb"));
  EXPECT_FALSE(colour_wanted(nullptr, nullptr));
}

/// A progress line that writes into a pipe, with a clock and a width that the test sets.
class ProgressLineTest : public ::testing::Test {
 protected:
  ProgressLineTest() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) fail_errno("cannot make a pipe");
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
  }

  ProgressOptions options(bool terminal) {
    return {.descriptor = write_.get(),
            .terminal = terminal,
            .now = [this] { return now_; },
            .columns = [this] { return columns_; }};
  }

  std::string written() {
    std::string text(65536, '\0');
    const ssize_t got = ::read(read_.get(), text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

  FileDescriptor read_;
  FileDescriptor write_;
  std::chrono::steady_clock::time_point now_{};
  int columns_ = 80;
};

TEST_F(ProgressLineTest, RedrawsInPlaceAtMostTenTimesASecond) {
  ProgressLine line(options(true));
  line.update({.step = 1});
  EXPECT_EQ(written(), "\r" + render_progress({.step = 1}, 79) + "\x1b[K");
  now_ += 99ms;
  line.update({.step = 2});
  EXPECT_EQ(written(), "");
  now_ += 1ms;
  line.update({.step = 3});
  EXPECT_EQ(written(), "\r" + render_progress({.step = 3}, 79) + "\x1b[K");
}

TEST_F(ProgressLineTest, WidthIsReadAtEachDraw) {
  ProgressLine line(options(true));
  line.update(midway());
  written();
  columns_ = 21;
  now_ += 1s;
  line.update(midway());
  EXPECT_EQ(written(), "\r38% loss 0.4321\x1b[K");
}

TEST_F(ProgressLineTest, WithoutATerminalPrintsALineAtMostEveryFiveSeconds) {
  ProgressOptions plain = options(false);
  plain.colour = true;
  ProgressLine line(plain);
  line.update(midway());
  const std::string first = written();
  EXPECT_EQ(first, render_progress(midway(), 200, {.bar = false}) + "\n");
  EXPECT_THAT(first, Not(HasSubstr("\x1b")));
  now_ += 4999ms;
  line.update({.step = 2});
  EXPECT_EQ(written(), "");
  now_ += 1ms;
  line.update({.step = 3});
  EXPECT_THAT(written(), HasSubstr("step 3"));
}

TEST_F(ProgressLineTest, APipeIsNotATerminal) {
  ProgressOptions plain = options(false);
  plain.terminal.reset();
  ProgressLine line(plain);
  line.update({.step = 1});
  EXPECT_THAT(written(), EndsWith("\n"));
}

TEST_F(ProgressLineTest, TextGoesAboveTheLine) {
  ProgressLine line(options(true));
  line.print_above("before");
  EXPECT_EQ(written(), "before\n");
  line.update({.step = 1});
  written();
  line.print_above("worker 1 joined");
  EXPECT_EQ(written(), "\r\x1b[Kworker 1 joined\n" + render_progress({.step = 1}, 79));
}

TEST_F(ProgressLineTest, ClearTakesTheLineAwayOnce) {
  ProgressLine line(options(true));
  line.clear();
  EXPECT_EQ(written(), "");
  line.update({.step = 1});
  written();
  line.clear();
  EXPECT_EQ(written(), "\r\x1b[K");
  line.clear();
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressLineTest, FinishShowsTheLatestAndLeavesIt) {
  {
    ProgressLine line(options(true));
    line.update({.step = 1});
    line.update({.step = 2});
    written();
    line.finish();
    EXPECT_EQ(written(), "\r" + render_progress({.step = 2}, 79) + "\x1b[K\n");
  }
  EXPECT_EQ(written(), "") << "nothing is left for the destructor to clear";
}

TEST_F(ProgressLineTest, FinishWithoutATerminalPrintsOnlyNewProgress) {
  ProgressLine line(options(false));
  line.update({.step = 1});
  written();
  line.finish();
  EXPECT_EQ(written(), "");
  line.update({.step = 2});
  line.finish();
  EXPECT_THAT(written(), HasSubstr("step 2"));
}

TEST_F(ProgressLineTest, DestructorLeavesACleanLine) {
  { ProgressLine(options(true)).update({.step = 1}); }
  EXPECT_THAT(written(), EndsWith("\r\x1b[K"));
}

TEST_F(ProgressLineTest, IgnoresAClosedDescriptor) {
  ProgressOptions closed = options(true);
  closed.descriptor = -1;
  ProgressLine line(closed);
  line.update({.step = 1});
  line.print_above("text");
  line.finish();
}

TEST_F(ProgressLineTest, ThreadsDoNotMixTheirOutput) {
  ProgressOptions fast = options(true);
  fast.now = std::chrono::steady_clock::now;
  fast.redraw_every = 0ms;
  ProgressLine line(fast);
  {
    std::jthread one([&] {
      for (Step step = 0; step < 50; ++step) line.update({.step = step});
    });
    std::jthread two([&] {
      for (int i = 0; i < 50; ++i) line.print_above("text");
    });
  }
  const std::string text = written();
  std::size_t count = 0;
  for (std::size_t place = text.find("text\n"); place != text.npos; place = text.find("text\n", place + 1)) ++count;
  EXPECT_EQ(count, 50u);
}

}  // namespace
}  // namespace trireme::observe
