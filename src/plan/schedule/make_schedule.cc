#include <algorithm>

#include "base/error.h"
#include "plan/schedule/schedule.h"
#include "plan/schedule/zero_bubble.h"

namespace trireme::plan {
namespace {

void check_shape(const ScheduleShape& shape) {
  const auto& [kind, ranks, micro_batches, chunks] = shape;
  if (ranks == 0 || micro_batches == 0 || chunks == 0) {
    fail<InvalidArgument>("a schedule of {} ranks, {} micro-batches and {} chunks: each must be at least 1", ranks,
                          micro_batches, chunks);
  }
  if (kind != ScheduleKind::kInterleaved && chunks != usual_chunks(kind)) {
    fail<InvalidArgument>("schedule {} has {} chunk{} per rank, not {}: use interleaved", name_of(kind),
                          usual_chunks(kind), usual_chunks(kind) == 1 ? "" : "s", chunks);
  }
  const std::uint64_t stages = std::uint64_t{ranks} * chunks;
  if (stages > kMostStages || micro_batches > kMostMicroBatches || stages * micro_batches * 3 > kMostActions) {
    fail<InvalidArgument>(
        "a schedule of {} stages and {} micro-batches is too large: at most {} stages, {} micro-batches, {} actions",
        stages, micro_batches, kMostStages, kMostMicroBatches, kMostActions);
  }
}

/// Stage c·p + r is chunk c of rank r.
Schedule empty_schedule(const ScheduleShape& shape) {
  Schedule schedule{.name = std::string(name_of(shape.kind)),
                    .micro_batches = shape.micro_batches,
                    .rank_of_stage = {},
                    .ranks = std::vector<std::vector<Action>>(shape.ranks)};
  for (std::uint32_t stage = 0; stage < shape.ranks * shape.chunks; ++stage) {
    schedule.rank_of_stage.push_back(stage % shape.ranks);
  }
  return schedule;
}

Schedule gpipe(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(shape);
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      for (std::uint32_t i = 0; i < shape.micro_batches; ++i) schedule.ranks[rank].push_back({rank, kind, i});
    }
  }
  return schedule;
}

/// The micro-batches in groups of at least as many as there are ranks, where there are that many: a group goes through
/// all chunks of a rank before the next one begins, and one that is smaller would leave the first rank waiting for it.
std::vector<std::uint32_t> group_sizes(std::uint32_t ranks, std::uint32_t micro_batches) {
  const std::uint32_t groups = std::max(1u, micro_batches / ranks);
  std::vector<std::uint32_t> sizes(groups, micro_batches / groups);
  for (std::uint32_t i = 0; i < micro_batches % groups; ++i) ++sizes[i];
  return sizes;
}

/// 1F1B is the interleaved schedule with one chunk, but for its warm-up.
Schedule one_forward_one_backward(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(shape);
  const std::vector<std::uint32_t> groups = group_sizes(shape.ranks, shape.micro_batches);
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action> forwards;
    std::vector<Action> backwards;
    std::uint32_t first = 0;
    for (const std::uint32_t size : groups) {
      for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
        for (std::uint32_t i = first; i < first + size; ++i) {
          forwards.push_back({chunk * shape.ranks + rank, ActionKind::kForward, i});
          backwards.push_back({(shape.chunks - 1 - chunk) * shape.ranks + rank, ActionKind::kBackward, i});
        }
      }
      first += size;
    }
    // The first backward comes back to a rank after as many forwards as there are ranks behind it; with chunks, the
    // forwards of the other chunks come first, and every hop of the way back takes a forward more.
    const std::size_t behind = shape.ranks - rank - 1;
    const std::size_t wanted = shape.chunks == 1 ? behind : 2 * behind + (shape.chunks - 1) * groups.front();
    const std::size_t warm_up = std::min(wanted, forwards.size());
    std::vector<Action>& actions = schedule.ranks[rank];
    actions.assign(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
    for (std::size_t i = 0; i < backwards.size(); ++i) {
      if (warm_up + i < forwards.size()) actions.push_back(forwards[warm_up + i]);
      actions.push_back(backwards[i]);
    }
  }
  return schedule;
}

}  // namespace

Schedule make_schedule(const ScheduleShape& shape) {
  check_shape(shape);
  switch (shape.kind) {
    case ScheduleKind::kGpipe:
      return gpipe(shape);
    case ScheduleKind::k1F1B:
    case ScheduleKind::kInterleaved:
      return one_forward_one_backward(shape);
    case ScheduleKind::kZbH1:
      return zb_h1(shape.ranks, shape.micro_batches);
    case ScheduleKind::kZbV:
      return zb_v(shape.ranks, shape.micro_batches);
  }
  TRIREME_CHECK(false, "schedule {}", static_cast<int>(shape.kind));
}

}  // namespace trireme::plan
