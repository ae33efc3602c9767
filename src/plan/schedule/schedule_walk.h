#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "plan/schedule/schedule.h"

namespace trireme::plan {

/// Goes through the actions of a schedule in an order in which it can run: every action after those before it in its
/// rank's list and after what it needs. Knows nothing of time; `evaluate` and `check_schedule` add what they want.
class ScheduleWalk {
 public:
  /// `id` numbers what an action leaves behind, below `ids()`: B and I of a stage leave the same input gradient.
  struct Need {
    Action action;
    std::size_t id = 0;
    bool from_other_rank = false;
  };

  /// The schedule must outlive the walk, and its actions name stages and micro-batches that it has.
  explicit ScheduleWalk(const Schedule& schedule);

  std::size_t ids() const;
  std::size_t id_of(const Action& action) const;

  /// Returns what `action` waits for besides those before it in its list: none, one or two. Where the schedule has
  /// messages, what crosses ranks is needed by the receive, not by the action that computes with it.
  struct Needs {
    std::array<Need, 2> all;
    std::size_t count = 0;

    const Need* begin() const { return all.data(); }
    const Need* end() const { return all.data() + count; }
  };
  Needs needs(const Action& action) const;

  /// Calls `visit(rank, action, needs)` for each action. Returns whether it got to the end of all lists; if not, the
  /// ranks are stuck where `position` says.
  template <typename Visit>
  bool run(const Visit& visit);

  /// How many actions of the rank's list have been visited.
  std::size_t position(Rank rank) const { return positions_[rank]; }

  /// Returns the first need of a stuck rank's next action that no visited action has met; nullopt at the end of a list.
  std::optional<Need> missing(Rank rank) const;

 private:
  const Schedule& schedule_;
  bool messages_ = false;
  std::vector<std::size_t> positions_;
  std::vector<bool> met_;
};

// Implementation.

template <typename Visit>
bool ScheduleWalk::run(const Visit& visit) {
  positions_.assign(schedule_.ranks.size(), 0);
  met_.assign(ids(), false);
  bool complete = false;
  for (bool moved = true; moved && !complete;) {
    moved = false;
    complete = true;
    for (Rank rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const std::vector<Action>& actions = schedule_.ranks[rank];
      for (std::size_t& next = positions_[rank]; next < actions.size(); ++next) {
        const Needs wanted = needs(actions[next]);
        bool ready = true;
        for (const Need& need : wanted) ready = ready && met_[need.id];
        if (!ready) break;
        visit(rank, actions[next], wanted);
        met_[id_of(actions[next])] = true;
        moved = true;
      }
      complete = complete && positions_[rank] == actions.size();
    }
  }
  return complete;
}

}  // namespace trireme::plan
