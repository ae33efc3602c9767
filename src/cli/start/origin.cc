#include "cli/start/origin.h"

#include <algorithm>
#include <cstdio>
#include <ranges>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/list.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"

namespace trireme::cli {
namespace {

bool is_sound(const checkpoint::CheckpointEntry& entry) {
  return entry.state == checkpoint::CheckpointEntry::State::kComplete && checkpoint::verify(entry.folder).sound();
}

}  // namespace

std::optional<Step> newest_step(const observe::RunFolder& folder) {
  std::optional<Step> newest;
  for (const auto& entry : checkpoint::list_checkpoints(folder.checkpoints())) {
    if (entry.state == checkpoint::CheckpointEntry::State::kComplete) newest = std::max(newest, {entry.step});
  }
  return newest;
}

void check_samples(const observe::RunFolder& folder, std::uint64_t samples) {
  const auto newest = checkpoint::latest_complete(folder.checkpoints());
  if (!newest) return;
  const std::uint64_t before = checkpoint::Checkpoint::open(*newest).meta().value("samples", samples);
  if (before == samples) return;
  fail<InvalidArgument>(
      "the checkpoints of {} were made with {} samples, the data has {} now: the two do not fit together; start a run "
      "of its own",
      folder.path().string(), before, samples);
}

void go_back_to(Step from, const observe::RunFolder& folder) {
  const std::string run = folder.path().string();
  const auto entries = checkpoint::list_checkpoints(folder.checkpoints());
  const auto chosen = std::ranges::find(entries, from, &checkpoint::CheckpointEntry::step);
  if (chosen == entries.end())
    fail<InvalidArgument>("{} has no checkpoint of step {}: see trireme ckpt ls {}", run, from, run);
  if (!is_sound(*chosen)) {
    fail<InvalidArgument>(
        "the checkpoint of step {} is incomplete or damaged (trireme ckpt verify {}): see trireme ckpt ls {}", from,
        chosen->folder.string(), run);
  }
  for (const auto& aside : checkpoint::set_aside_after(checkpoint::real_file_system(), folder.checkpoints(), from)) {
    fmt::print(stderr, "trireme: a later checkpoint is kept as {}\n", aside.string());
  }
}

void tell_origin(const observe::RunFolder& folder) {
  bool damaged = false;
  for (const auto& entry : checkpoint::list_checkpoints(folder.checkpoints()) | std::views::reverse) {
    if (is_sound(entry)) return;
    if (entry.state == checkpoint::CheckpointEntry::State::kIncomplete) continue;
    damaged = true;
    fmt::print(stderr,
               "trireme: the checkpoint of step {} is damaged (trireme ckpt verify {}): an older one is tried\n",
               entry.step, entry.folder.string());
  }
  fmt::print(stderr, "trireme: {} has no {}\n", folder.path().string(),
             damaged ? "sound checkpoint to continue from" : "complete checkpoint: starting from the beginning");
}

}  // namespace trireme::cli
