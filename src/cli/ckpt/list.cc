#include "checkpoint/list.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/ckpt/commands.h"
#include "observe/bench_report.h"
#include "observe/table.h"

namespace trireme::cli {
namespace {

using checkpoint::CheckpointEntry;
using State = CheckpointEntry::State;

/// Returns the entries of `folder`; a complete one whose indexes or files are wrong counts as damaged here.
std::vector<CheckpointEntry> look_closer(const std::filesystem::path& folder) {
  auto entries = checkpoint::list_checkpoints(folder);
  for (CheckpointEntry& entry : entries) {
    if (entry.state != State::kComplete) continue;
    try {
      checkpoint::Checkpoint::open(entry.folder);
    } catch (const Corrupt& problem) {
      entry.state = State::kDamaged;
      entry.problem = problem.what();
    }
  }
  return entries;
}

const char* state_text(State state) {
  return state == State::kComplete ? "complete" : state == State::kDamaged ? "DAMAGED" : "incomplete";
}

/// The complete one with the highest score, or null.
const CheckpointEntry* best_of(const std::vector<CheckpointEntry>& entries) {
  const CheckpointEntry* best = nullptr;
  for (const CheckpointEntry& entry : entries) {
    if (entry.state != State::kComplete || !entry.score) continue;
    if (best == nullptr || *entry.score > *best->score) best = &entry;
  }
  return best;
}

observe::Json to_json(const CheckpointEntry& entry, bool best) {
  observe::Json row{{"step", entry.step},
                    {"state", entry.state == State::kDamaged ? "damaged" : state_text(entry.state)},
                    {"folder", entry.folder.string()}};
  if (!entry.problem.empty()) row["problem"] = entry.problem;
  if (entry.state != State::kComplete) return row;
  row["bytes"] = entry.bytes;
  row["written_ms"] = entry.written_ms;
  row["tensors"] = entry.tensors;
  row["parts"] = entry.parts;
  row["score"] = entry.score ? observe::Json(*entry.score) : observe::Json();
  row["best"] = best;
  return row;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string age_text(std::int64_t written_ms) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t age = std::chrono::duration_cast<std::chrono::milliseconds>(now).count() - written_ms;
  const std::int64_t seconds = std::max<std::int64_t>(0, age / 1000);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

std::string time_text(std::int64_t written_ms) {
  const std::time_t time = written_ms / 1000;
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return fmt::format("{} ms after 1970", written_ms);
  char text[64];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

std::filesystem::path choose(const CkptChoice& choice, bool damaged_too) {
  const checkpoint::Located located = checkpoint::locate(choice.path);
  if (located.step_folder && !choice.step) return *located.step_folder;
  const auto entries = checkpoint::list_checkpoints(located.folder);
  if (choice.step) {
    std::vector<Step> steps;
    for (const CheckpointEntry& entry : entries) {
      if (entry.step == *choice.step) return entry.folder;
      steps.push_back(entry.step);
    }
    fail<InvalidArgument>("{} holds no checkpoint of step {}; it has {}", located.folder.string(), *choice.step,
                          steps.empty() ? "none" : fmt::format("{}", fmt::join(steps, ", ")));
  }
  if (damaged_too) {
    const auto newest = std::ranges::find_if(entries.rbegin(), entries.rend(), [](const CheckpointEntry& entry) {
      return entry.state != State::kIncomplete;
    });
    if (newest != entries.rend()) return newest->folder;
  } else if (const auto newest = checkpoint::latest_complete(located.folder)) {
    return *newest;
  }
  fail<InvalidArgument>("{} holds no complete checkpoint{}", located.folder.string(),
                        entries.empty() ? "; is it a run's folder?" : "; see trireme ckpt ls");
}

int ckpt_list(const CkptListOptions& options) {
  const std::filesystem::path folder = checkpoint::locate(options.path).folder;
  const auto entries = look_closer(folder);
  const CheckpointEntry* best = best_of(entries);
  if (options.json) {
    observe::Json rows = observe::Json::array();
    for (const CheckpointEntry& entry : entries) rows.push_back(to_json(entry, &entry == best));
    fmt::print("{}\n", rows.dump());
    return 0;
  }
  if (entries.empty()) {
    fmt::print("no checkpoints in {}\n", folder.string());
    return 0;
  }
  observe::TableCells cells{{"step", "size", "age", "tensors", "parts", "score", "state", ""}};
  for (const CheckpointEntry& entry : entries) {
    const bool complete = entry.state == State::kComplete;
    const auto told = [&](const std::string& text) { return complete ? text : "-"; };
    cells.push_back({std::to_string(entry.step), told(observe::as_size(entry.bytes)), told(age_text(entry.written_ms)),
                     told(std::to_string(entry.tensors)), told(std::to_string(entry.parts)),
                     entry.score && complete ? fmt::format("{:.6g}", *entry.score) : "-", state_text(entry.state),
                     &entry == best ? "best" : ""});
  }
  fmt::print("{}\n{}", folder.string(),
             observe::aligned(std::move(cells), {true, true, true, true, true, true, false, false}));
  for (const CheckpointEntry& entry : entries) {
    if (!entry.problem.empty()) fmt::print("step {}: {}\n", entry.step, entry.problem);
  }
  return 0;
}

}  // namespace trireme::cli
