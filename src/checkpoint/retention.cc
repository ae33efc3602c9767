#include "checkpoint/retention.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace trireme::checkpoint {
namespace {

using State = CheckpointEntry::State;

/// Returns the steps of the complete ones that `policy` keeps.
std::set<Step> wanted(std::vector<const CheckpointEntry*> complete, const RetentionPolicy& policy) {
  std::set<Step> steps;
  for (std::size_t i = 0; i < std::min<std::size_t>(policy.keep_last, complete.size()); ++i) {
    steps.insert(complete[complete.size() - 1 - i]->step);
  }
  std::erase_if(complete, [](const CheckpointEntry* entry) { return !entry->score; });
  std::ranges::stable_sort(complete, std::greater(), [](const CheckpointEntry* entry) { return *entry->score; });
  for (std::size_t i = 0; i < std::min<std::size_t>(policy.keep_best, complete.size()); ++i) {
    steps.insert(complete[i]->step);
  }
  return steps;
}

}  // namespace

std::vector<Removal> decide_removals(std::span<const CheckpointEntry> entries, const RetentionPolicy& policy,
                                     Step current) {
  std::vector<const CheckpointEntry*> complete;
  for (const CheckpointEntry& entry : entries) {
    if (entry.state == State::kComplete) complete.push_back(&entry);
  }
  const std::set<Step> keep = wanted(complete, policy);
  std::vector<Removal> removals;
  for (const CheckpointEntry& entry : entries) {
    if (entry.state == State::kIncomplete && entry.step < current) {
      removals.push_back({entry.folder, fmt::format("was not completed, and step {} is", current)});
    }
    if (entry.state == State::kComplete && policy.keep_last > 0 && entry.step != current &&
        !keep.contains(entry.step)) {
      removals.push_back({entry.folder, fmt::format("neither among the last {} nor among the best {}", policy.keep_last,
                                                    policy.keep_best)});
    }
  }
  return removals;
}

void remove_checkpoint(FileSystem& files, const std::filesystem::path& folder) {
  files.remove(folder / kManifestName);
  files.sync_folder(folder);
  bool empty = true;
  for (const std::string& name : files.list(folder)) {
    const bool ours = name.starts_with("part-") || name.starts_with(kManifestName);
    if (ours) files.remove(folder / name);
    empty = empty && ours;
  }
  if (empty) files.remove(folder);
}

std::vector<std::filesystem::path> set_aside_after(FileSystem& files, const std::filesystem::path& folder, Step step) {
  const std::vector<std::string> names = files.list(folder);
  std::vector<std::filesystem::path> moved;
  for (const std::string& name : names) {
    if (const auto found = parse_step_folder(name); !found || *found <= step) continue;
    std::string aside = name + ".aside";
    for (int number = 2; std::ranges::count(names, aside) > 0; ++number)
      aside = fmt::format("{}.aside-{}", name, number);
    files.rename(folder / name, folder / aside);
    moved.push_back(folder / aside);
  }
  if (!moved.empty()) files.sync_folder(folder);
  return moved;
}

}  // namespace trireme::checkpoint
