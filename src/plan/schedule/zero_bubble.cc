#include "plan/schedule/zero_bubble.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace trireme::plan {
namespace {

constexpr ActionKind kF = ActionKind::kForward;
constexpr ActionKind kI = ActionKind::kBackwardInput;
constexpr ActionKind kW = ActionKind::kBackwardWeight;

/// Appends actions to a rank's list, of each stage and kind in the order of micro-batches.
class ActionList {
 public:
  ActionList(std::vector<Action>& actions, std::uint32_t micro_batches)
      : actions_(actions), micro_batches_(micro_batches) {}

  /// The next micro-batch; beyond the last it only counts, so that a pattern for many serves for few.
  void add(ActionKind kind, std::uint32_t chunk, std::uint32_t stage) {
    const std::uint32_t next = counts_[index(kind, chunk)]++;
    if (next < micro_batches_) actions_.push_back({stage, kind, next});
  }

  std::uint32_t count(ActionKind kind, std::uint32_t chunk) const { return counts_[index(kind, chunk)]; }

 private:
  static std::size_t index(ActionKind kind, std::uint32_t chunk) {
    return (kind == kF ? 0 : kind == kI ? 1 : 2) + 3 * chunk;
  }

  std::vector<Action>& actions_;
  std::uint32_t micro_batches_;
  std::array<std::uint32_t, 6> counts_{};
};

Schedule empty_v(std::uint32_t ranks, std::uint32_t micro_batches) {
  Schedule schedule{.name = std::string(name_of(ScheduleKind::kZbV)),
                    .micro_batches = micro_batches,
                    .rank_of_stage = {},
                    .ranks = std::vector<std::vector<Action>>(ranks)};
  for (Rank rank = 0; rank < ranks; ++rank) schedule.rank_of_stage.push_back(rank);
  for (Rank rank = ranks; rank-- > 0;) schedule.rank_of_stage.push_back(rank);
  return schedule;
}

/// The pattern of the paper, for one rank. Chunk 0 is the way down the V, chunk 1 the way up.
void add_v_pattern(Rank rank, std::uint32_t ranks, std::uint32_t micro_batches, std::vector<Action>& actions) {
  ActionList list(actions, micro_batches);
  const auto add = [&](ActionKind kind, std::uint32_t chunk) {
    list.add(kind, chunk, chunk == 0 ? rank : 2 * ranks - 1 - rank);
  };
  const std::uint32_t total = std::max(micro_batches, 2 * ranks - 1);
  // Until the first micro-batch comes up again, go on sending down; then both ways in turn.
  for (std::uint32_t i = 0; i < 2 * (ranks - rank) - 1; ++i) add(kF, 0);
  for (Rank i = 0; i < rank; ++i) {
    add(kF, 1);
    add(kF, 0);
  }
  for (Rank i = rank; i < ranks; ++i) {
    for (const ActionKind kind : {kF, kI, kW}) add(kind, 1);
  }
  while (list.count(kF, 1) < total) {
    if (list.count(kF, 0) < total) add(kF, 0);
    add(kI, 0);
    add(kW, 0);
    for (const ActionKind kind : {kF, kI, kW}) add(kind, 1);
  }
  // No forward is left: the weight gradients wait until nobody waits for an input gradient.
  for (Rank i = 0; i < rank; ++i) {
    add(kI, 0);
    add(kI, 1);
  }
  for (Rank i = rank; i < ranks; ++i) {
    add(kI, 0);
    add(kW, 0);
  }
  for (const std::uint32_t chunk : {1u, 0u}) {
    while (list.count(kW, chunk) < total) add(kW, chunk);
  }
}

/// Few micro-batches, which the memory holds all at once: every rank does what is ready, what others wait for first.
class EagerV {
 public:
  explicit EagerV(Schedule& schedule) : schedule_(schedule), next_(schedule.stages()) {
    ended_.assign(std::size_t{schedule.stages()} * schedule.micro_batches * 3, kNever);
  }

  void run() {
    const std::size_t actions = ended_.size();
    std::size_t done = 0;
    for (std::uint32_t now = 0; done < actions; ++now) {
      for (Rank rank = 0; rank < schedule_.ranks.size(); ++rank) {
        const std::optional<Action> action = choose(rank, now);
        if (!action) continue;
        schedule_.ranks[rank].push_back(*action);
        ++next_[action->stage][slot(action->kind)];
        ended(*action) = now + 1;
        ++done;
      }
    }
  }

 private:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  static std::size_t slot(ActionKind kind) { return kind == kF ? 0 : kind == kI ? 1 : 2; }

  std::uint32_t& ended(const Action& action) {
    return ended_[(std::size_t{action.stage} * schedule_.micro_batches + action.micro_batch) * 3 + slot(action.kind)];
  }

  bool ready(const Action& action, std::uint32_t now) {
    const auto [stage, kind, micro_batch] = action;
    if (micro_batch >= schedule_.micro_batches) return false;
    const bool last = stage + 1 == schedule_.stages();
    if (kind == kF) return stage == 0 || ended({stage - 1, kF, micro_batch}) <= now;
    if (kind == kW) return ended({stage, kI, micro_batch}) <= now;
    return ended({stage, kF, micro_batch}) <= now && (last || ended({stage + 1, kI, micro_batch}) <= now);
  }

  std::optional<Action> choose(Rank rank, std::uint32_t now) {
    const auto last = static_cast<std::uint32_t>(2 * schedule_.ranks.size() - 1);
    for (const ActionKind kind : {kI, kF, kW}) {
      for (const std::uint32_t stage : {last - rank, rank}) {
        const Action action{stage, kind, next_[stage][slot(kind)]};
        if (ready(action, now)) return action;
      }
    }
    return std::nullopt;
  }

  Schedule& schedule_;
  std::vector<std::array<std::uint32_t, 3>> next_;  // [stage][kind]: the micro-batch that follows
  std::vector<std::uint32_t> ended_;
};

}  // namespace

Schedule zb_h1(std::uint32_t ranks, std::uint32_t micro_batches) {
  Schedule schedule{.name = std::string(name_of(ScheduleKind::kZbH1)),
                    .micro_batches = micro_batches,
                    .rank_of_stage = {},
                    .ranks = std::vector<std::vector<Action>>(ranks)};
  for (Rank rank = 0; rank < ranks; ++rank) {
    schedule.rank_of_stage.push_back(rank);
    ActionList list(schedule.ranks[rank], micro_batches);
    for (Rank i = rank; i < ranks; ++i) list.add(kF, 0, rank);
    for (std::uint32_t i = 0; i < micro_batches; ++i) {
      list.add(kI, 0, rank);
      if (i >= rank) list.add(kW, 0, rank);
      list.add(kF, 0, rank);
    }
    while (list.count(kW, 0) < micro_batches) list.add(kW, 0, rank);
  }
  return schedule;
}

Schedule zb_v(std::uint32_t ranks, std::uint32_t micro_batches) {
  Schedule schedule = empty_v(ranks, micro_batches);
  if (micro_batches <= ranks) {
    EagerV(schedule).run();
  } else {
    for (Rank rank = 0; rank < ranks; ++rank) add_v_pattern(rank, ranks, micro_batches, schedule.ranks[rank]);
  }
  return schedule;
}

}  // namespace trireme::plan
