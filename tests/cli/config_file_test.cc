#include "cli/flags/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::cli {
namespace {

using ::testing::ElementsAre;

/// A command with a flag of each kind, and a configuration file.
struct ConfigFileTest : ::testing::Test {
  ConfigFileTest() {
    command.add_option("--workers", workers);
    command.add_option("--model", model);
    command.add_option("--sizes", sizes);
    command.add_flag("--verbose,!--quiet", verbose);
    add_config_flag(command, path);
  }

  /// Parses the command line, then takes over the file.
  void run(const std::string& line, const std::string& file, const std::set<std::string>& except = {}) {
    command.parse(line);
    apply_config_file(command, folder.write("job.toml", file).string(), except);
  }

  TempFolder folder;
  CLI::App command{"trains", "train"};
  std::string path;
  int workers = 1;
  std::string model = "lenet";
  std::vector<int> sizes;
  bool verbose = false;
};

TEST_F(ConfigFileTest, TakesOverFlagsOfEveryKind) {
  run("", "workers = 4\nmodel = \"mlp\"\nsizes = [1, 2, 3]\nverbose = true\n");
  EXPECT_EQ(workers, 4);
  EXPECT_EQ(model, "mlp");
  EXPECT_THAT(sizes, ElementsAre(1, 2, 3));
  EXPECT_TRUE(verbose);
}

TEST_F(ConfigFileTest, CommandLineWinsOverTheFile) {
  run("--workers 2", "workers = 4\nmodel = \"mlp\"\n");
  EXPECT_EQ(workers, 2);
  EXPECT_EQ(model, "mlp");
}

TEST_F(ConfigFileTest, FlagSetToFalseStaysOff) {
  verbose = true;
  run("", "verbose = false\n");
  EXPECT_FALSE(verbose);
}

TEST_F(ConfigFileTest, KeysToLeaveOutAreLeftOut) {
  run("", "workers = 4\nmodel = \"mlp\"\n", {"workers"});
  EXPECT_EQ(workers, 1);
  EXPECT_EQ(model, "mlp");
}

TEST_F(ConfigFileTest, CommentsAndAnEmptyFileChangeNothing) {
  run("", "# nothing\n\n");
  EXPECT_EQ(workers, 1);
  EXPECT_EQ(model, "lenet");
}

TEST_F(ConfigFileTest, UnknownKeyIsRefusedWithASuggestion) {
  EXPECT_FAILS(run("", "wokers = 4\n"), InvalidArgument, "job.toml", "'wokers'", "train", "workers");
}

TEST_F(ConfigFileTest, ConfigAndHelpAreNoKeys) {
  EXPECT_FAILS(run("", "config = \"other.toml\"\n"), InvalidArgument, "'config'");
  EXPECT_FAILS(run("", "help = true\n"), InvalidArgument, "'help'");
}

TEST_F(ConfigFileTest, SectionIsRefused) {
  EXPECT_FAILS(run("", "[train]\nworkers = 4\n"), InvalidArgument, "[train]", "at the top");
}

TEST_F(ConfigFileTest, MissingFileIsNamed) {
  EXPECT_FAILS(apply_config_file(command, (folder / "none.toml").string()), InvalidArgument, "none.toml");
}

TEST_F(ConfigFileTest, ValueOfTheWrongTypeIsRefused) {
  EXPECT_THROW(run("", "workers = \"many\"\n"), CLI::ConversionError);
  EXPECT_THROW(run("", "verbose = \"perhaps\"\n"), CLI::ParseError);
}

TEST_F(ConfigFileTest, PathIsTakenFromTheCommandLine) {
  command.parse("--config job.toml");
  EXPECT_EQ(path, "job.toml");
}

TEST_F(ConfigFileTest, ValueOfOneFlagIsFoundWithoutTheCommand) {
  const std::string file = folder.write("job.toml", "strategy = \"ps\"\nworkers = 4\n").string();
  EXPECT_EQ(config_value(file, "strategy"), "ps");
  EXPECT_EQ(config_value(file, "workers"), "4");
  EXPECT_EQ(config_value(file, "model"), "");
}

}  // namespace
}  // namespace trireme::cli
