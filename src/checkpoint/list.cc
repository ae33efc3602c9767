#include "checkpoint/list.h"

#include <algorithm>
#include <ranges>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"

namespace trireme::checkpoint {
namespace {

CheckpointEntry look_at(const std::filesystem::path& folder, Step step, FileSystem& files) {
  CheckpointEntry entry{.folder = folder, .step = step};
  if (!files.size(folder / kManifestName)) return entry;
  try {
    const Manifest manifest = load_manifest(files, folder);
    entry.state = CheckpointEntry::State::kComplete;
    entry.written_ms = manifest.written_ms;
    entry.score = manifest.score;
    entry.tensors = manifest.tensors.size();
    entry.parts = manifest.parts.size();
    for (const PartEntry& part : manifest.parts) entry.bytes += part.bytes;
  } catch (const Corrupt& problem) {
    entry.state = CheckpointEntry::State::kDamaged;
    entry.problem = problem.what();
  }
  return entry;
}

struct Tried {
  bool sound = false;        // one of them was
  std::string last_problem;  // of those that were not
};

/// Offers the checkpoints to `use`, the newest first, until one is not damaged.
Tried try_newest_first(const std::filesystem::path& folder, const std::function<void(const Checkpoint&)>& use) {
  Tried tried;
  for (const CheckpointEntry& entry : list_checkpoints(folder) | std::views::reverse) {
    if (entry.state == CheckpointEntry::State::kIncomplete) continue;
    try {
      use(Checkpoint::open(entry.folder));
      tried.sound = true;
      return tried;
    } catch (const Corrupt& problem) {
      log_warn("checkpoint_unusable", "passed over a checkpoint: it is damaged, an older one is tried",
               {{"step", entry.step}, {"reason", problem.what()}});
      tried.last_problem = problem.what();
    }
  }
  return tried;
}

}  // namespace

std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& folder, FileSystem& files) {
  std::vector<CheckpointEntry> entries;
  for (const std::string& name : files.list(folder)) {
    if (const auto step = parse_step_folder(name)) entries.push_back(look_at(folder / name, *step, files));
  }
  std::ranges::sort(entries, {}, &CheckpointEntry::step);
  return entries;
}

std::optional<std::filesystem::path> latest_complete(const std::filesystem::path& folder) {
  std::optional<std::filesystem::path> newest;
  try_newest_first(folder, [&](const Checkpoint& checkpoint) { newest = checkpoint.folder(); });
  return newest;
}

bool read_newest(const std::filesystem::path& folder, const std::function<void(const Checkpoint&)>& read) {
  const Tried tried = try_newest_first(folder, read);
  if (!tried.sound && !tried.last_problem.empty()) {
    fail<Corrupt>(
        "no checkpoint in {} can be used; of the oldest: {}. To begin anew: trireme train --overwrite, or another "
        "--out",
        folder.string(), tried.last_problem);
  }
  return tried.sound;
}

Located locate(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    fail<InvalidArgument>("{} is not a folder: name a run's folder, its checkpoints folder, or a step in there",
                          path.string());
  }
  const std::filesystem::path plain = std::filesystem::canonical(path);
  if (std::filesystem::exists(plain / kManifestName) || parse_step_folder(plain.filename().string())) {
    return {.folder = plain.parent_path(), .step_folder = path};
  }
  if (std::filesystem::is_directory(path / "checkpoints")) return {.folder = path / "checkpoints"};
  return {.folder = path};
}

}  // namespace trireme::checkpoint
