#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/system/program.h"

namespace trireme::system_test {

/// A job of two workers that would train for hours, until somebody ends it.
struct LongJob {
  /// Starts `trireme train` with these flags besides the usual ones.
  explicit LongJob(const std::vector<std::string>& flags) : job(folder, command(flags)) {}

  /// Waits until both workers train; worker 1 logs `attached` when it is about to. For ASSERT_TRUE.
  ::testing::AssertionResult trains(const WantedEvent& attached) {
    worker = wait_for_member(job.pid(), "worker", 1, run, attached);
    all = descendants(job.pid());
    const bool begun = worker > 0 && eventually([&] { return std::filesystem::exists(run / "metrics.jsonl"); });
    return begun ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << job.err();
  }

  void expect_nothing_left() const {
    for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << "process " << pid;
  }

  std::vector<std::string> command(const std::vector<std::string>& flags) const {
    std::vector<std::string> words{"train",   "--json",  "--data-dir", make_images(folder).string(),
                                   "--steps", "1000000", "--out",      run.string()};
    words.insert(words.end(), flags.begin(), flags.end());
    return trireme(words);
  }

  TempFolder folder;
  const std::filesystem::path run = folder / "run";
  Program job;
  pid_t worker = 0;        // rank 1
  std::vector<pid_t> all;  // processes of the job
};

}  // namespace trireme::system_test
