#include "plan/schedule/schedule_check.h"

#include <algorithm>

#include "base/error.h"
#include "plan/schedule/schedule_walk.h"

namespace trireme::plan {
namespace {

bool is_input_gradient(ActionKind kind) { return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput; }

/// Each action is one that its rank can do.
void check_actions(const Schedule& schedule) {
  for (Rank rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Action& action : schedule.ranks[rank]) {
      const auto refuse = [&](const std::string& why) {
        fail<InvalidArgument>("rank {}, action {}: {}", rank, to_text(action), why);
      };
      if (action.stage >= schedule.stages()) refuse(fmt::format("there are {} stages", schedule.stages()));
      if (action.micro_batch >= schedule.micro_batches) {
        refuse(fmt::format("there are {} micro-batches", schedule.micro_batches));
      }
      const Rank owner = schedule.rank_of_stage[action.stage];
      if (owner != rank) refuse(fmt::format("stage {} is on rank {}", action.stage, owner));
      if (!is_message(action.kind)) continue;
      const bool down = action.kind == ActionKind::kSendForward || action.kind == ActionKind::kReceiveBackward;
      if (down ? action.stage + 1 == schedule.stages() : action.stage == 0) {
        refuse("there is no stage beyond it to talk to");
      }
      if (schedule.rank_of_stage[down ? action.stage + 1 : action.stage - 1] == rank) {
        refuse("the other stage is on the same rank, which needs no message");
      }
    }
  }
}

/// Returns the first stage and micro-batch without `kind`, by counting: works where a table of all would be too large.
void refuse_incomplete(const Schedule& schedule) {
  std::vector<Action> there;
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kForward || is_input_gradient(action.kind)) {
        there.push_back(
            {action.stage, is_input_gradient(action.kind) ? ActionKind::kBackward : action.kind, action.micro_batch});
      }
    }
  }
  std::ranges::sort(there);
  for (std::uint32_t stage = 0; stage < schedule.stages(); ++stage) {
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      for (std::uint32_t i = 0; i < schedule.micro_batches; ++i) {
        const Action wanted{stage, kind, i};
        if (std::ranges::binary_search(there, wanted)) continue;
        fail<InvalidArgument>("rank {}, action {} is missing{}", schedule.rank_of_stage[stage], to_text(wanted),
                              kind == ActionKind::kBackward
                                  ? fmt::format(", or {}", to_text(Action{stage, ActionKind::kBackwardInput, i}))
                                  : "");
      }
    }
  }
}

/// Each result is made once, and by all that belong together.
void check_complete(const Schedule& schedule, const ScheduleWalk& walk) {
  std::vector<bool> made(walk.ids(), false);
  std::vector<bool> whole(std::size_t{schedule.stages()} * schedule.micro_batches, false);
  bool messages = false;
  for (Rank rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Action& action : schedule.ranks[rank]) {
      if (made[walk.id_of(action)]) {
        fail<InvalidArgument>("rank {}, action {}: it is there twice", rank, to_text(action));
      }
      made[walk.id_of(action)] = true;
      messages = messages || is_message(action.kind);
      if (action.kind == ActionKind::kBackward) {
        whole[std::size_t{action.stage} * schedule.micro_batches + action.micro_batch] = true;
      }
    }
  }
  for (std::uint32_t stage = 0; stage < schedule.stages(); ++stage) {
    const Rank rank = schedule.rank_of_stage[stage];
    for (std::uint32_t i = 0; i < schedule.micro_batches; ++i) {
      const auto has = [&](ActionKind kind) { return made[walk.id_of({stage, kind, i})]; };
      const auto require = [&](ActionKind kind) {
        if (!has(kind)) fail<InvalidArgument>("rank {}, action {} is missing", rank, to_text(Action{stage, kind, i}));
      };
      require(ActionKind::kForward);
      require(ActionKind::kBackward);
      if (!whole[std::size_t{stage} * schedule.micro_batches + i]) {
        require(ActionKind::kBackwardWeight);
      } else if (has(ActionKind::kBackwardWeight)) {
        fail<InvalidArgument>("rank {}, action {}: {} computes that gradient too", rank,
                              to_text(Action{stage, ActionKind::kBackwardWeight, i}),
                              to_text(Action{stage, ActionKind::kBackward, i}));
      }
      if (!messages) continue;
      if (stage > 0 && schedule.rank_of_stage[stage - 1] != rank) {
        require(ActionKind::kReceiveForward);
        require(ActionKind::kSendBackward);
      }
      if (stage + 1 < schedule.stages() && schedule.rank_of_stage[stage + 1] != rank) {
        require(ActionKind::kSendForward);
        require(ActionKind::kReceiveBackward);
      }
    }
  }
}

void check_progress(const Schedule& schedule, ScheduleWalk& walk) {
  if (walk.run([](Rank, const Action&, const ScheduleWalk::Needs&) {})) return;
  for (Rank rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto need = walk.missing(rank);
    if (!need) continue;
    const Rank other = schedule.rank_of_stage[need->action.stage];
    const Action& stuck = schedule.ranks[rank][walk.position(rank)];
    const std::string there = other == rank ? "which comes later in its own list"
                                            : fmt::format("and rank {} is stuck before it, at {}", other,
                                                          to_text(schedule.ranks[other][walk.position(other)]));
    fail<InvalidArgument>("rank {}, action {} can never begin: it waits for {}, {}", rank, to_text(stuck),
                          to_text(need->action), there);
  }
}

}  // namespace

void check_schedule(const Schedule& schedule) {
  if (schedule.ranks.empty() || schedule.stages() == 0 || schedule.micro_batches == 0) {
    fail<InvalidArgument>("a schedule needs at least a rank, a stage and a micro-batch");
  }
  for (std::uint32_t stage = 0; stage < schedule.stages(); ++stage) {
    if (schedule.rank_of_stage[stage] >= schedule.ranks.size()) {
      fail<InvalidArgument>(
          "stage {} is on {}, and there are {} ranks", stage,
          schedule.rank_of_stage[stage] == kNobody ? "no rank" : fmt::format("rank {}", schedule.rank_of_stage[stage]),
          schedule.ranks.size());
    }
  }
  for (Rank rank = 0; rank < schedule.ranks.size(); ++rank) {
    if (schedule.ranks[rank].empty()) fail<InvalidArgument>("rank {} has no action: every rank needs a stage", rank);
  }
  check_actions(schedule);
  std::size_t actions = 0;
  for (const std::vector<Action>& list : schedule.ranks) actions += list.size();
  if (actions / 2 < std::uint64_t{schedule.stages()} * schedule.micro_batches) refuse_incomplete(schedule);
  ScheduleWalk walk(schedule);
  check_complete(schedule, walk);
  check_progress(schedule, walk);
}

}  // namespace trireme::plan
