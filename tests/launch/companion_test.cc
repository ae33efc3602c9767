#include "launch/companion.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"
#include "tests/support/temp_folder.h"

namespace trireme::launch {
namespace {

void make_program(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
}

TEST(CompanionProgram, BesideThisOne_IsFoundFirst) {
  const TempFolder prefix;
  make_program(prefix / "bin/trireme-worker");
  make_program(prefix / "libexec/trireme/trireme-worker");
  EXPECT_EQ(companion_program(prefix / "bin", "trireme-worker"), (prefix / "bin/trireme-worker").string());
}

TEST(CompanionProgram, InstalledAsHelper_IsFoundFromBin) {
  const TempFolder prefix;
  std::filesystem::create_directories(prefix / "bin");
  make_program(prefix / "libexec/trireme/trireme-worker");
  EXPECT_EQ(companion_program(prefix / "bin", "trireme-worker"), (prefix / "libexec/trireme/trireme-worker").string());
}

TEST(CompanionProgram, ProgramOfTheUser_FindsWhatLiesBesideTheCommandInPath) {
  const TempFolder prefix;
  std::filesystem::create_directories(prefix / "mine");
  make_program(prefix / "usr/bin/trireme");
  make_program(prefix / "usr/libexec/trireme/trireme-worker");
  const std::string search = "/nowhere::" + (prefix / "usr/bin").string();
  EXPECT_EQ(companion_program(prefix / "mine", "trireme", search), (prefix / "usr/bin/trireme").string());
  EXPECT_EQ(companion_program(prefix / "mine", "trireme-worker", search),
            (prefix / "usr/libexec/trireme/trireme-worker").string());
}

TEST(CompanionProgram, NotBuilt_SaysWhereItWouldBeAndWhatMakesIt) {
  const TempFolder prefix;
  EXPECT_FAILS(companion_program(prefix / "bin", "trireme-worker"), InvalidArgument,
               (prefix / "bin/trireme-worker").string(), (prefix / "libexec/trireme/trireme-worker").string(),
               "with LibTorch");
}

}  // namespace
}  // namespace trireme::launch
