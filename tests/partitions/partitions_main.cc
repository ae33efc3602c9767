// The partition matrix: for every pair of roles, packets between one of each are lost, both ways or one way, for 5 s,
// for 30 s and for good. Prints what the job did about it, as a table. Cells run side by side: they mostly wait.
//
//   partitions [--jobs N] [--logs FOLDER] [WORD ...]     only cells whose names contain all the words
//
// Each with all-reduce or bsp, as the pair has it, with ssp:4 and with asp: `partitions asp`.

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/system/survival/partition_cell.h"

namespace trireme::system_test {
namespace {

struct MatrixOptions {
  std::size_t jobs = 3;
  std::string logs = {};
  std::vector<std::string> words = {};
};

MatrixOptions parse(int argc, char** argv) {
  MatrixOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool takes_value = word == "--jobs" || word == "--logs";
    if (takes_value && i + 1 == argc) fail<InvalidArgument>("{} needs a value", word);
    if (word == "--jobs") {
      options.jobs = std::stoul(argv[++i]);
    } else if (word == "--logs") {
      options.logs = argv[++i];
    } else {
      options.words.push_back(word);
    }
  }
  return options;
}

std::vector<PartitionCell> chosen(const std::vector<std::string>& words) {
  std::vector<PartitionCell> cells;
  for (const auto lasts : {std::optional(5s), std::optional(30s), std::optional<std::chrono::seconds>()}) {
    for (const CutPair pair : kCutPairs) {
      for (const CutDirection direction : kCutDirections) {
        for (const char* consistency : {"bsp", "ssp:4", "asp"}) {
          const PartitionCell cell{.pair = pair, .direction = direction, .lasts = lasts, .consistency = consistency};
          const auto named = [&](const std::string& word) { return cell.name().find(word) != std::string::npos; };
          if (std::ranges::all_of(words, named)) cells.push_back(cell);
        }
      }
    }
  }
  return cells;
}

void write_logs(PartitionedJob& job, const std::string& folder, std::string cell) {
  std::ranges::replace(cell, ' ', '-');
  std::filesystem::create_directories(std::filesystem::path(folder) / cell);
  for (const auto& [name, text] : job.logs()) {
    std::ofstream(std::filesystem::path(folder) / cell / (name + ".log")) << text;
  }
}

/// A row of the table; its problems on lines of their own.
nlohmann::json row_of(const PartitionCell& cell, const PartitionOutcome& outcome) {
  const auto or_dash = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f} s", *value) : std::string("–");
  };
  return {{"row", fmt::format("| {} | {:.1f} s | {} | {} | {} | {} | {} |", cell.name(), outcome.pause_s,
                              or_dash(outcome.named_s), outcome.views, or_dash(outcome.healed_s),
                              outcome.equal ? "yes" : "no", outcome.reason)},
          {"wrong", outcome.wrong},
          {"late", outcome.late}};
}

void run_cell(const PartitionCell& cell, const std::string& logs, Talk& matrix) {
  std::unique_ptr<PartitionedJob> job;
  try {
    job = std::make_unique<PartitionedJob>(cell);
    const PartitionOutcome outcome = job->run();
    if (!logs.empty()) write_logs(*job, logs, cell.name());
    job.reset();
    matrix.say(row_of(cell, outcome));
  } catch (const std::exception& problem) {
    if (job && !logs.empty()) write_logs(*job, logs, cell.name());
    job.reset();
    matrix.say(
        {{"row", fmt::format("| {} |", cell.name())}, {"wrong", {problem.what()}}, {"late", nlohmann::json::array()}});
  }
}

int run_matrix(const MatrixOptions& options) {
  const std::vector<PartitionCell> cells = chosen(options.words);
  std::printf(
      "| pair, packets lost, how long | longest pause | reason named after | views | healed after | bits equal | "
      "reason |\n|---|---|---|---|---|---|---|\n");
  std::size_t next = 0;
  int failures = 0;
  std::deque<Process> running;
  while (next < cells.size() || !running.empty()) {
    while (next < cells.size() && running.size() < options.jobs) {
      const PartitionCell cell = cells[next++];
      running.emplace_back([&](Talk& matrix) { run_cell(cell, options.logs, matrix); });
    }
    const nlohmann::json result = running.front().talk().hear(10min);
    running.front().wait();
    running.pop_front();
    std::printf("%s\n", result.at("row").get<std::string>().c_str());
    for (const char* kind : {"wrong", "late"}) {
      for (const std::string promise : result.at(kind)) {
        std::printf("  %s: %s\n", kind, promise.c_str());
        ++failures;
      }
    }
    std::fflush(stdout);
  }
  std::printf("%zu cells, %d promises broken\n", cells.size(), failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace trireme::system_test

int main(int argc, char** argv) try {
  return trireme::system_test::run_matrix(trireme::system_test::parse(argc, argv));
} catch (const std::exception& problem) {
  std::fprintf(stderr, "%s\n", problem.what());
  return 2;
}
