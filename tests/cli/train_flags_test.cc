#include "cli/flags/train_flags.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/flags/config_file.h"
#include "cli/flags/train_flag_table.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// `trireme train`, as far as its flags are concerned.
struct Command {
  Command() { declare(app, flags); }

  /// Parses the command line, then takes over the file, if there is one.
  explicit Command(const std::string& line, const std::string& file = {}) : Command() {
    app.parse(line);
    if (!file.empty()) apply_config_file(app, file);
    settle(app, flags);
  }

  CLI::App app{"trains", "train"};
  TrainFlags flags;
};

/// Returns a command line that gives the flag another value than its default.
template <class Value>
std::string line_with(const Flag<TrainFlags, Value>& flag) {
  static const std::map<std::string, std::string> parsed_at_once{
      {"--strategy", "allreduce"}, {"--workers", "3:4"}, {"--mesh", "pipe=2"}, {"--pipeline", "zb-v"}};
  if (std::is_same_v<Value, bool>) return flag.name();
  if (!flag.choices.empty()) return flag.name() + "=" + flag.choices.back();
  if (const auto found = parsed_at_once.find(flag.name()); found != parsed_at_once.end()) {
    return flag.name() + "=" + found->second;
  }
  return flag.name() + (std::is_same_v<Value, std::string> ? "=text" : std::is_integral_v<Value> ? "=7" : "=0.25");
}

TEST(TrainFlags, EachIsTheSameAfterConfigFileAndJson) {
  const TempFolder folder;
  for_each_train_flag([&](const auto& flag) {
    SCOPED_TRACE(line_with(flag));
    const Command given(line_with(flag));
    EXPECT_NE(given.flags.*flag.member, Command("").flags.*flag.member);

    if (flag.traits.of_one_launch) {
      EXPECT_EQ(config_text(given.app), config_text(Command("").app)) << "it does not stick";
      return;
    }
    const Command read("", folder.write("config.toml", config_text(given.app)).string());
    EXPECT_EQ(read.flags, given.flags);
    EXPECT_EQ(config_text(read.app), config_text(given.app));

    const auto handed = nlohmann::json(read.flags).get<TrainFlags>();
    EXPECT_EQ(handed.*flag.member, flag.for_workers() ? given.flags.*flag.member : TrainFlags{}.*flag.member);
  });
}

TEST(TrainFlags, WhatCheckpointsAreMadeOfCannotChange) {
  const Command before("--batch 32 --optimizer adam --lr 0.1");
  const Command same("--batch 32 --lr 0.2 --workers 3 --strategy allreduce");
  check_continues(same.app, same.flags, before.flags);
  for (const std::string line :
       {"--batch 64", "--optimizer sgd", "--data synthetic", "--model mlp", "--seed 2", "--lanes 9"}) {
    const Command other(line);
    EXPECT_FAILS(check_continues(other.app, other.flags, before.flags), InvalidArgument, line.substr(0, line.find(' ')),
                 "was trained with");
  }
}

TEST(TrainFlags, OnlyWhatWasGivenIsPassedOn) {
  const std::vector<SharedFlag> passed_on{{.name = "--codec"}, {.name = "--lanes"}, {.name = "--balance"}};
  const Command none("--batch 32");
  EXPECT_EQ(given_as_json(none.app, none.flags, passed_on), "");
  const Command two("--batch 32 --codec fp16 --lanes 4");
  EXPECT_EQ(given_as_json(two.app, two.flags, passed_on), R"({"codec":"fp16","lanes":4})");
}

TEST(TrainFlags, EachHasAUse) {
  for_each_train_flag([&](const auto& flag) {
    static const std::set<std::string> of_the_launcher{"--out",     "--overwrite", "--servers-per-host", "--memory",
                                                       "--offload", "--hosts",     "--hostfile",         "--discover"};
    const bool launches = of_the_launcher.contains(flag.name());
    EXPECT_TRUE(flag.for_workers() || flag.traits.set_job != nullptr || launches) << flag.name();
  });
}

TEST(TrainFlags, DefaultsPassTheirChecks) { check(Command("").flags); }

TEST(TrainFlags, WorkersRefuseJsonWithoutOneOfTheirs) {
  nlohmann::json handed = TrainFlags{};
  handed.erase("batch");
  EXPECT_THROW(handed.get<TrainFlags>(), nlohmann::json::exception);
}

TEST(TrainFlags, DefaultsFollowTheStrategy) {
  const Command servers("--workers 3");
  EXPECT_EQ(servers.flags.lanes, 3);
  EXPECT_EQ(servers.flags.servers, 1);
  EXPECT_EQ(servers.flags.consistency, "bsp");
  EXPECT_EQ(servers.flags.buffers, "average");
  EXPECT_THAT(config_text(servers.app), HasSubstr("servers=1\n"));

  const Command none("--strategy allreduce --lanes 8");
  EXPECT_EQ(none.flags.lanes, 8);
  EXPECT_EQ(none.flags.servers, 0);
  EXPECT_EQ(none.flags.consistency, "");
  EXPECT_EQ(none.flags.buffers, "average");
  EXPECT_FAILS(Command("--strategy pss"), InvalidArgument, "'pss'");
}

TEST(TrainFlags, ThoseOfOneStrategyAreNotInherited) {
  EXPECT_THAT(flags_of_one_strategy(),
              ElementsAre("backup-workers", "consistency", "damp-stale", "replicas", "servers", "servers-per-host"));
}

TEST(TrainFlags, InvalidValuesAreRefusedByName) {
  const auto check_line = [](const std::string& line) { check(Command(line).flags); };
  EXPECT_FAILS(check_line("--batch 0"), InvalidArgument, "--batch 0");
  EXPECT_FAILS(check_line("--workers 0"), InvalidArgument, "--workers 0");
  EXPECT_FAILS(check_line("--lr 0"), InvalidArgument, "--lr 0");
  EXPECT_FAILS(check_line("--device gpu"), InvalidArgument, "--device gpu");
  EXPECT_FAILS(check_line("--device cdua"), InvalidArgument, "use cpu");
  EXPECT_FAILS(check_line("--device cuda:"), InvalidArgument, "such as cuda:1");
  EXPECT_FAILS(check_line("--device cuda:one"), InvalidArgument, "--device cuda:one");
  EXPECT_FAILS(check_line("--throttle fast"), InvalidArgument, "'fast'");
  EXPECT_FAILS(check_line("--transport shm --throttle 1mbit"), InvalidArgument, "--throttle 1mbit");
  EXPECT_THROW(Command("--replicas 2"), CLI::ValidationError);
}

TEST(TrainFlags, JobIsWhatTheyAskFor) {
  const launch::JobSpec job =
      to_job(Command("--workers 2:8 --servers 3 --replicas auto --restarts 5 --wait-for-workers 0.5 --max-views 9 "
                     "--transport tcp --throttle 1mbit --latency-ms 4 --trace-algorithms --json")
                 .flags);
  EXPECT_EQ(job.workers, 8);
  EXPECT_EQ(job.min_workers, 2);
  EXPECT_EQ(job.min_start, 2);
  EXPECT_EQ(job.servers, 3);
  EXPECT_EQ(job.replicas, 1);
  EXPECT_EQ(job.restarts, 5);
  EXPECT_EQ(job.wait_for_workers, 0.5);
  EXPECT_EQ(job.max_views, 9);
  EXPECT_EQ(job.transport, "tcp");
  EXPECT_EQ(job.throttle, "1mbit");
  EXPECT_EQ(job.latency_ms, 4);
  EXPECT_TRUE(job.trace_algorithms);
  EXPECT_TRUE(job.quiet);
}

TEST(TrainFlags, AnotherCommandSharesSomeInItsOwnWords) {
  CLI::App command("runs", "run");
  TrainFlags flags;
  declare_shared(command, flags, {{"--servers", "how many", /*show_default=*/true}, {"--json"}});
  EXPECT_THAT(command.help(), ContainsRegex("-s,--servers UINT(=1| \\[1\\]) "));  // as this CLI11 writes it
  EXPECT_THAT(command.help(), HasSubstr("how many"));
  EXPECT_THAT(command.help(), Not(HasSubstr("--workers")));
  command.parse("-s 4 --json");
  EXPECT_EQ(flags.servers, 4);
  EXPECT_TRUE(flags.json);
}

TEST(TrainFlags, HowToReadDataIsParsed) {
  EXPECT_THAT(parse_list("a,,b c"), ElementsAre("a", "b c"));
  EXPECT_THAT(parse_list(""), ElementsAre());
  EXPECT_EQ(parse_types("zip=category,a=b=date"),
            (std::map<std::string, data::ColumnKind>{{"zip", data::ColumnKind::kCategory},
                                                     {"a=b", data::ColumnKind::kDate}}));
  EXPECT_EQ(parse_shapes("image=3x32x32,mask=7"),
            (std::map<std::string, std::vector<std::int64_t>>{{"image", {3, 32, 32}}, {"mask", {7}}}));
  EXPECT_EQ(parse_image_size("32x16").width, 16);
  for (const char* const wrong : {"image", "image=", "=3", "image=3x", "image=0x3", "image=-1", "image=3y"}) {
    EXPECT_FAILS(parse_shapes(wrong), InvalidArgument, "--shape", wrong, "image=3x32x32");
  }
  for (const char* const wrong : {"zip", "zip=", "=date", "zip=dat"}) {
    EXPECT_FAILS(parse_types(wrong), InvalidArgument, "--types", wrong);
  }
  for (const char* const wrong : {"32", "0x4", "4x", "4x4x4", "99999x1"}) {
    EXPECT_FAILS(parse_image_size(wrong), InvalidArgument, "--image-size", wrong);
  }
}

}  // namespace
}  // namespace trireme::cli
