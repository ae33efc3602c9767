#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "plan/schedule/schedule_text.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::cli {
namespace {

struct Answered {
  int status = 0;
  std::string text;
};

/// Runs `trireme plan` with these words, in this process, on a machine of which nothing was measured.
Answered plan(const std::string& words) {
  ::setenv("XDG_CACHE_HOME", "/nonexistent", 1);
  CLI::App app("test", "trireme");
  Action action;
  add_plan(app, action);
  app.parse("plan " + words, false);
  ::testing::internal::CaptureStdout();
  try {
    const int status = action();
    return {status, ::testing::internal::GetCapturedStdout()};
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
}

constexpr const char* kXl = "--model gpt2-xl --workers 64 --memory 24gb --bandwidth 100gbit --latency 20us ";

TEST(PlanCommand, RecommendsAMeshWithReasons) {
  const Answered answered = plan(std::string(kXl) + "--hosts 8");
  EXPECT_EQ(answered.status, 0);
  for (const char* part : {"1,557,611,200 parameters", "Recommended: data=", "it fits: ", "data parallelism alone",
                           "pipe 0", "micro-batches", "flops used", "To train so: trireme train --model gpt2-xl"}) {
    EXPECT_THAT(answered.text, ::testing::HasSubstr(part));
  }
}

TEST(PlanCommand, AnswersInJson) {
  const Answered answered = plan(std::string(kXl) + "--json --top 3 --mtbf 5000");
  const auto json = nlohmann::json::parse(answered.text);
  EXPECT_EQ(json["parameters"], 1557611200u);
  EXPECT_EQ(json["candidates"].size(), 3u);
  EXPECT_TRUE(json["fits"]);
  const auto& memory = json["candidates"][0]["memory_bytes"];
  EXPECT_LE(memory["total"], 24e9);
  EXPECT_DOUBLE_EQ(memory["total"].get<double>(), memory["weights"].get<double>() + memory["gradients"].get<double>() +
                                                      memory["optimizer"].get<double>() +
                                                      memory["activations"].get<double>() +
                                                      memory["working"].get<double>());
  EXPECT_GT(json["goodput"]["from_checkpoint"]["share"], 0.5);
}

TEST(PlanCommand, EndsWithOneWhereNothingFitsAndSaysWhatWould) {
  const Answered answered = plan("--model gpt2-xl --workers 1 --memory 20gb");
  EXPECT_EQ(answered.status, 1);
  for (const char* part : {"DOES NOT FIT", "too much", "What would help:", "--workers 2", "--memory "}) {
    EXPECT_THAT(answered.text, ::testing::HasSubstr(part));
  }
}

TEST(PlanCommand, SimulatesTenThousandWorkers) {
  const Answered answered = plan(
      "--model gpt2 --workers 10000 --hosts 1250 --memory 80gb --batch 20000 --mesh data=10000 "
      "--mtbf 50000 --straggler 0.0001:1.5 --seed 3");
  EXPECT_THAT(answered.text, ::testing::HasSubstr("from the last checkpoint: goodput"));
  EXPECT_THAT(answered.text, ::testing::HasSubstr("from a replica"));
  EXPECT_EQ(plan("--model gpt2 --workers 10000 --hosts 1250 --memory 80gb --batch 20000 --mesh data=10000 "
                 "--mtbf 50000 --straggler 0.0001:1.5 --seed 3")
                .text,
            answered.text);
}

TEST(PlanCommand, DrawsEverySchedule) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}) {
    const Answered answered = plan(std::string("--stages 4 --micro-batches 8 --schedule ") + name);
    EXPECT_EQ(answered.status, 0);
    EXPECT_THAT(answered.text, ::testing::HasSubstr(std::string(name) + ": "));
    EXPECT_THAT(answered.text, ::testing::HasSubstr("(formula "));
    EXPECT_THAT(answered.text, ::testing::HasSubstr("rank 3 "));
  }
  EXPECT_THAT(plan("--schedule zb-v --stages 4 --micro-batches 8").text,
              ::testing::HasSubstr("bubble 5.9 % (formula 5.9 %)"));
  EXPECT_THAT(plan("--schedule 1f1b --stages 4 --micro-batches 8").text,
              ::testing::HasSubstr("bubble 27.3 % (formula 27.3 %)"));
}

TEST(PlanCommand, WritesAndReadsSchedules) {
  const TempFolder folder;
  const std::string csv = (folder.path() / "a.csv").string();
  const std::string svg = (folder.path() / "a.svg").string();
  const std::string drawn = plan("--schedule zb-h1 --stages 3 --micro-batches 5 --csv " + csv + " --svg " + svg).text;
  EXPECT_TRUE(read_file(svg).starts_with("<svg "));
  const std::string again = plan("--schedule-file " + csv).text;
  EXPECT_EQ(drawn.substr(drawn.find("rank 0"), drawn.find("time") - drawn.find("rank 0")),
            again.substr(again.find("rank 0"), again.find("time") - again.find("rank 0")));
  plan(std::string(kXl) + "--mesh data=8,pipe=8 --messages --csv " + csv);  // of a plan
  EXPECT_THAT(read_file(csv), ::testing::HasSubstr("SEND_F"));
  EXPECT_NO_THROW(plan::schedule_from_csv(read_file(csv), "planned"));
}

/// What docs/parallel.md shows, block by block: the command after "$ trireme plan ", and what it answers.
TEST(PlanCommand, AnswersAsTheDocumentSays) {
  std::istringstream document(read_file(std::filesystem::path(TRIREME_SOURCE_DIR) / "docs/parallel.md"));
  const std::string prompt = "$ trireme plan ";
  std::size_t blocks = 0;
  for (std::string line; std::getline(document, line);) {
    if (!line.starts_with(prompt)) continue;
    std::string shown;
    for (std::string row; std::getline(document, row) && row != "```";) shown += row + "\n";
    EXPECT_EQ(plan(line.substr(prompt.size())).text, shown) << line;
    ++blocks;
  }
  EXPECT_GE(blocks, 5u);
}

TEST(PlanCommand, DrawsThePicturesOfTheDocument) {
  const TempFolder folder;
  const std::string svg = (folder.path() / "drawn.svg").string();
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}) {
    plan(std::string("--stages 4 --micro-batches 8 --schedule ") + name + " --svg " + svg);
    const auto kept = std::filesystem::path(TRIREME_SOURCE_DIR) / "docs/schedules" / (std::string(name) + ".svg");
    EXPECT_EQ(read_file(svg), read_file(kept)) << name;
  }
}

TEST(PlanCommand, AFileThatIsNoScheduleIsRefusedByName) {
  const TempFolder folder;
  const std::string path = (folder.path() / "bad.csv").string();
  std::ofstream(path) << "0F0,0B0\n1B0,1F0\n";
  EXPECT_FAILS(plan("--schedule-file " + path), InvalidArgument, "bad.csv", "rank 0, action 0B0", "can never begin");
  EXPECT_FAILS(plan("--schedule-file " + path + ".gone"), IoError, "bad.csv.gone");
  EXPECT_FAILS(plan("--schedule 1f1b --schedule-file " + path), InvalidArgument, "of its own");
}

TEST(PlanCommand, WrongRequestsAreRefusedWithTheReason) {
  EXPECT_FAILS(plan(""), InvalidArgument, "needs --model", "--stages");
  EXPECT_FAILS(plan("--model gpt2"), InvalidArgument, "needs --workers");
  EXPECT_FAILS(plan("--model gpt2 --workers 4"), InvalidArgument, "needs --memory", "24gb");
  EXPECT_FAILS(plan("--model gpt-2 --workers 4 --memory 8gb"), InvalidArgument, "did you mean 'gpt2'?");
  EXPECT_FAILS(plan("--model wide-deep --workers 4 --memory 8gb"), InvalidArgument, "columns of its table");
  EXPECT_FAILS(plan("--model gpt2 --workers 0 --memory 8gb"), InvalidArgument, "--workers 0", "from 1");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --hosts 5 --memory 8gb"), InvalidArgument, "--hosts 5", "at most 4");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 8"), InvalidArgument, "--memory 8", "24gb");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 8gb --zero 4"), InvalidArgument, "--zero 4", "from 0 to 3");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 8gb --mesh data=3"), InvalidArgument, "3 ranks", "4 workers");
  EXPECT_FAILS(plan("--model gpt2 --workers 8 --memory 8gb --mesh tensor=8"), InvalidArgument, "12 attention heads",
               "tensor=6");
  EXPECT_FAILS(plan("--model resnet18 --workers 2 --memory 8gb --mesh tensor=2"), InvalidArgument, "tensor=1");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 8gb --batch 6 --mesh data=4"), InvalidArgument, "batch of 6",
               "data=3");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 8gb --chunks 4"), InvalidArgument, "--chunks is for");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 80gb --svg a.svg"), InvalidArgument, "no pipeline to draw");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 8gb --times 1:1:1"), InvalidArgument, "--times belongs to");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 80gb --straggler 2:1"), InvalidArgument, "--straggler",
               "below 1");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 80gb --straggler 0.1"), InvalidArgument, "0.02:1.5");
  EXPECT_FAILS(plan("--model gpt2 --workers 4 --memory 8gb --mtbf 0"), InvalidArgument, "--mtbf 0", "above 0");
  EXPECT_FAILS(plan("--stages 4 --schedule 1f1b --messages"), InvalidArgument, "--messages needs --csv");
  EXPECT_FAILS(plan("--stages 4"), InvalidArgument, "which schedule?");
  EXPECT_FAILS(plan("--stages 4 --schedule zbv"), InvalidArgument, "did you mean 'zb-v'?");
  EXPECT_FAILS(plan("--stages 4 --schedule 1f1b --memory 8gb"), InvalidArgument, "--memory belongs to");
  EXPECT_FAILS(plan("--stages 4 --schedule 1f1b --chunks 2"), InvalidArgument, "1f1b has 1 chunk");
  EXPECT_FAILS(plan("--stages 4 --schedule 1f1b --times 0:0:0"), InvalidArgument, "--times", "not all 0");
  EXPECT_FAILS(plan("--stages 4 --schedule 1f1b --message -1"), InvalidArgument, "--message -1");
}

}  // namespace
}  // namespace trireme::cli
