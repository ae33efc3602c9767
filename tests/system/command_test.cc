// The commands as a person or a script uses them when all goes well.

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> rows;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(Help, IsAvailableForEveryCommand) {
  const TempFolder folder;
  const Outcome all = run_trireme(folder, {"--help"});
  EXPECT_EQ(all.status, 0);
  for (const std::string command : {"train", "run", "serve", "master", "ckpt", "bench"}) {
    EXPECT_THAT(all.out, HasSubstr("  " + command));
    const Outcome one = run_trireme(folder, {command, "--help"});
    EXPECT_EQ(one.status, 0) << command;
    EXPECT_THAT(one.out, HasSubstr("--help")) << command;
  }
  EXPECT_THAT(run_trireme(folder, {"train", "--help"}).out,
              AllOf(HasSubstr("Who takes part"), HasSubstr("--consistency"), HasSubstr("Example:")));
}

TEST(Version, IsOneLine) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(folder, {"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(BenchInput, MeasuresEverySource) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(
      folder, {"bench", "input", "--bytes", "100000", "--rounds", "1", "--json", "--folder", folder.path().string()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> sources;
  const nlohmann::json report = outcome.json();
  for (const auto& row : report.at("sources")) {
    sources.push_back(row.at("source"));
    for (const char* speed : {"opened_per_s", "samples_per_s", "random_per_s", "plain_gbps"}) {
      EXPECT_GT(row.at(speed).get<double>(), 0) << sources.back() << ", " << speed;
    }
  }
  EXPECT_THAT(sources, ::testing::IsSupersetOf(
                           {"tokens", "tfrecord", "idx", "csv", "libsvm", "npy", "cifar", "webdataset", "tokens .gz"}));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_FALSE(entry.is_directory()) << "what it writes is removed again: " << entry.path();
  }
}

TEST(Train, WritesACompleteRunFolder) {
  const TempFolder folder;
  const auto run = folder / "run";
  const Outcome outcome =
      run_trireme(folder, {"train", "--json", "--data-dir", make_images(folder).string(), "--servers", "2", "--epochs",
                           "4", "--batch", "32", "--schedule", "constant", "--out", run.string()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto result = outcome.json();
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << "one line of JSON and nothing else";
  EXPECT_EQ(result.at("steps"), 80);
  EXPECT_EQ(result.at("samples"), 2560);
  EXPECT_GT(result.at("test_accuracy"), 0.9);
  EXPECT_GT(result.at("samples_per_s"), 0);
  EXPECT_EQ(result.at("run"), run.string());

  auto written = nlohmann::json::parse(read_file(run / "result.json"));
  EXPECT_EQ(written.at("parameters_sha256"), result.at("parameters_sha256"));

  const checkpoint::SafetensorsFile model(run / "model.safetensors");
  EXPECT_EQ(model.tensors().size(), 10u);
  EXPECT_EQ(model.at("conv1.weight").shape, (std::vector<std::int64_t>{6, 1, 5, 5}));

  const auto rows = read_json_lines(run / "metrics.jsonl");
  const auto of_kind = [&](const char* kind) {
    return std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.at("kind") == kind; });
  };
  EXPECT_GE(of_kind("train"), 1);
  EXPECT_EQ(of_kind("test"), 4);

  EXPECT_THAT(read_file(run / "config.toml"), AllOf(HasSubstr("batch=32"), HasSubstr("model=\"lenet\"")));
  EXPECT_EQ(names_in(run / "tensorboard").size(), 1u);
  EXPECT_THAT(names_in(run / "logs"),
              UnorderedElementsAre("master.log", "server-0.log", "server-1.log", "worker-0.log", "worker-1.log"));
}

TEST(Train, WritesHistogramsForTensorBoardWhenAskedTo) {
  for (const char* strategy : {"ps", "allreduce"}) {
    const TempFolder folder;
    const auto run = folder / "run";
    const Outcome outcome =
        run_trireme(folder, {"train", "--data-dir", make_images(folder).string(), "--steps", "6", "-w", "2",
                             "--strategy", strategy, "--histograms", "2", "--out", run.string()});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::string events;
    for (const auto& file : std::filesystem::directory_iterator(run / "tensorboard" / "histograms")) {
      events += read_file(file.path());
    }
    for (const std::string tag : {"weights/conv1.weight", "gradients/fc1.weight", "gradients/fc2.weight"}) {
      std::size_t found = 0;
      for (std::size_t at = events.find(tag); at != std::string::npos; at = events.find(tag, at + 1)) ++found;
      EXPECT_EQ(found, 3u) << tag << " of steps 0, 2 and 4 with " << strategy;
    }
  }
}

TEST(Train, PrintsTheResultAndWhatToTryNext) {
  const TempFolder folder;
  const Outcome outcome =
      run_trireme(folder, {"train", "--data-dir", make_images(folder).string(), "--steps", "3", "--model", "mlp"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("training mlp on"), HasSubstr("test accuracy "), HasSubstr("after 3 steps"),
                                 HasSubstr("the run is in runs/"), HasSubstr("try next")));
}

TEST(Train, ReadsFlagsFromAFile) {
  const TempFolder folder;
  folder.write("run.toml", "model = \"mlp\"\nbatch = 64\nsteps = 7\nworkers = 1\njson = true\ndata-dir = \"" +
                               make_images(folder).string() + "\"\n");
  const Outcome first = run_trireme(folder, {"train", "--config", "run.toml", "--steps", "5", "--out", "one"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.json().at("steps"), 5) << "what stands on the command line wins";
  EXPECT_EQ(first.json().at("samples"), 5 * 64);

  const Outcome again =
      run_trireme(folder, {"train", "--config", "one/config.toml", "--json", "--out", "two"});  // what a run leaves
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.json().at("parameters_sha256"), first.json().at("parameters_sha256"));
}

TEST(Train, ReadsAFileThatIsDamagedFromTheNextFolderAndSaysSo) {
  const TempFolder folder;
  const auto sound = make_images(folder);
  const auto damaged = folder / "damaged";
  std::filesystem::copy(sound, damaged);
  std::filesystem::resize_file(damaged / "train-images-idx3-ubyte", 1000);
  const auto train = [&](const std::string& folders, const std::string& run) {
    return run_trireme(folder,
                       {"train", "--json", "--data-dir", folders, "--model", "mlp", "--steps", "5", "--out", run});
  };
  const Outcome plain = train(sound.string(), "plain");
  ASSERT_EQ(plain.status, 0) << plain.err;
  const Outcome fallen_over = train(damaged.string() + "," + sound.string(), "fallen_over");
  ASSERT_EQ(fallen_over.status, 0) << fallen_over.err;
  EXPECT_EQ(fallen_over.json().at("parameters_sha256"), plain.json().at("parameters_sha256"));
  const auto warning = HasEvent("mirror_skipped", {{"mirror", (damaged / "train-images-idx3-ubyte").string()},
                                                   {"reason", HasSubstr("truncated")},
                                                   {"next", (sound / "train-images-idx3-ubyte").string()}});
  EXPECT_THAT(fallen_over.err, warning) << "a person sees it at the start";
  EXPECT_THAT(read_file(folder / "fallen_over/logs/worker-0.log"), warning);

  const Outcome again =
      run_trireme(folder, {"train", "--config", "fallen_over/config.toml", "--json", "--out", "again"});
  ASSERT_EQ(again.status, 0) << again.err;  // a list of folders survives in the run's configuration
  EXPECT_EQ(again.json().at("parameters_sha256"), plain.json().at("parameters_sha256"));
}

TEST(Train, OverwritesARunWithTheFlag) {
  const TempFolder folder;
  const std::vector<std::string> flags{"train",     "--json", "--data-dir", make_images(folder).string(),
                                       "--model",   "mlp",    "--steps",    "2",
                                       "--workers", "1",      "--out",      "run"};
  EXPECT_EQ(run_trireme(folder, flags).status, 0);
  EXPECT_GT(run_trireme(folder, flags).status, 0);
  auto overwrite = flags;
  overwrite.push_back("--overwrite");
  EXPECT_EQ(run_trireme(folder, overwrite).status, 0);
}

TEST(Run, SetsTheEnvironmentOfTheProgram) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(
      folder, {"run", "-w", "3", "-s", "2", "--out", "run", "--", "/bin/sh", "-c",
               "echo \"$TRIREME_ROLE $TRIREME_RANK of $TRIREME_WORKERS and $TRIREME_SERVERS, $1, ${#TRIREME_SECRET}\"; "
               "exec " TRIREME_BINARY_DIR "/all_reduce",
               "sh", "--its-own-flag"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(read_file(folder / "run" / "logs" / ("worker-" + std::to_string(rank) + ".log")),
                HasSubstr("worker " + std::to_string(rank) + " of 3 and 2, --its-own-flag, 64\n"));
  }
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("worker 0 of 3")) << "what the first worker says is shown";
  EXPECT_THAT(outcome.out, HasSubstr("the run is in run"));
}

TEST(Run, AProgramThatNeverJoinsIsAnError) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(folder, {"run", "-w", "2", "-s", "0", "--", "/bin/true"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("exited with status 0 and never joined the job"),
                                 HasSubstr("trireme::dist::init()"), HasSubstr("logs: ")));
  EXPECT_EQ(outcome.out, "");
  const Outcome one = run_trireme(folder, {"run", "-w", "2", "-s", "0", "--", "/bin/sh", "-c",
                                           "test $TRIREME_RANK = 0 || exec " TRIREME_BINARY_DIR "/all_reduce"});
  EXPECT_EQ(one.status, 1);
  EXPECT_THAT(one.err, HasSubstr("worker 0 exited with status 0 and never joined the job"))
      << "the other would wait for it for minutes";
}

TEST(Run, AProgramThatForgetsItsGoodbyeIsToldWhatItForgot) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(folder, {"run", "-w", "2", "-s", "0", "--", TRIREME_BINARY_DIR "/forgetful"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("ended before the job did"), HasSubstr("job->leave()")));
}

TEST(Run, ALoopThatCannotGoOnIsStartedAgainAsAWholeIfRestartsAreGiven) {
  const TempFolder folder;
  const std::string dies_once = "if test $TRIREME_RANK = 1 && mkdir died; then exec " TRIREME_BINARY_DIR
                                "/forgetful; fi; exec " TRIREME_BINARY_DIR "/all_reduce";
  const std::vector<std::string> program{"-w", "2", "-s", "0", "--", "/bin/sh", "-c", dies_once};
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), program.begin(), program.end());
    return run_trireme(folder, words);
  };
  EXPECT_EQ(run({"run"}).status, 1) << "nobody said that it may be repeated";
  std::filesystem::remove(folder / "died");
  const Outcome outcome = run({"run", "--restarts", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("all processes are started again (1 of --restarts 1)"));

  std::filesystem::remove(folder / "died");
  const Outcome other =
      run_trireme(folder, {"run", "-w", "2", "-s", "0", "--restarts", "1", "--", "/bin/sh", "-c",
                           "test $TRIREME_RANK = 0 || mkdir died || exit 3; exec " TRIREME_BINARY_DIR "/forgetful"});
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.err, AllOf(HasSubstr("(1 of --restarts 1)"), HasSubstr("worker 1 exited with status 3")))
      << "not what the first try forgot";
}

TEST(Run, JsonIsOneLineEvenOfAProgramWithoutAResult) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(
      folder, {"run", "-w", "2", "-s", "0", "--json", "--out", "run", "--", TRIREME_BINARY_DIR "/all_reduce"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "{\"run\":\"run\"}\n");
}

TEST(Run, ReturnsTheWorstStatusAndShowsTheEndOfTheLog) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(folder, {"run", "-w", "2", "-s", "1", "--", "/bin/sh", "-c",
                                               "test $TRIREME_RANK = 0 && sleep 100; echo what went wrong; exit 3"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("worker 1 exited with status 3"), HasSubstr("what went wrong"), HasSubstr("logs: ")));
}

TEST(Run, SaysWhichProgramIsNotThere) {
  const TempFolder folder;
  const Outcome outcome = run_trireme(folder, {"run", "--", "./no_such_program"});
  EXPECT_GT(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("./no_such_program"), HasSubstr("No such file")));
}

TEST(Serve, RankIsThatOfTheFlagEvenIfItIsZero) {
  const TempFolder folder;
  const Program::Environment place{{"TRIREME_ROLE", "server"},
                                   {"TRIREME_RANK", "1"},
                                   {"TRIREME_SERVERS", "2"},
                                   {"TRIREME_MASTER", "127.0.0.1:1"},
                                   {"TRIREME_SECRET", "0123456789abcdef0123456789abcdef"}};
  const auto log_of = [&](const std::vector<std::string>& arguments) {
    const Program server(folder, trireme(arguments), place);
    EXPECT_TRUE(eventually([&] { return !events_in(server.err()).empty(); })) << server.err();
    return server.err();
  };
  EXPECT_THAT(log_of({"serve"}), HasSubstr("[server 1]"));
  EXPECT_THAT(log_of({"serve", "--rank", "0"}), HasSubstr("[server 0]"));
}

}  // namespace
}  // namespace trireme::system_test
