#include "plan/schedule/own_schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "plan/schedule/schedule_text.h"

namespace trireme::plan {
namespace {

constexpr char kBetweenRanks = ';';

bool has(const Schedule& schedule, ActionKind kind) {
  return std::ranges::any_of(schedule.ranks, [kind](const std::vector<Action>& actions) {
    return std::ranges::find(actions, kind, &Action::kind) != actions.end();
  });
}

void check_trainable(const Schedule& schedule) {
  if (schedule.ranks.size() < 2) fail<InvalidArgument>("a pipeline has two ranks or more, and this has one row");
  if (has(schedule, ActionKind::kBackward) && has(schedule, ActionKind::kBackwardInput)) {
    fail<InvalidArgument>("some backwards are whole (B) and others split (I and W): split all of them, or none");
  }
}

}  // namespace

bool is_own_schedule(std::string_view pipeline) { return pipeline.find_first_of(",;") != std::string_view::npos; }

Schedule own_schedule(std::string_view pipeline) {
  std::string text(pipeline);
  std::ranges::replace(text, kBetweenRanks, '\n');
  Schedule schedule = schedule_from_csv(text, kOwnSchedule);
  for (std::vector<Action>& actions : schedule.ranks) {
    std::erase_if(actions, [](const Action& action) { return is_message(action.kind); });
  }
  check_trainable(schedule);
  return schedule;
}

std::string own_schedule_from_file(const std::string& file) {
  try {
    return in_one_line(own_schedule(in_one_line(schedule_from_csv(read_file(file), file))));
  } catch (const Error& problem) {
    const std::string why = problem.what();
    fail<InvalidArgument>("--pipeline {}", why.find(file) == std::string::npos ? file + ": " + why : why);
  }
}

std::string in_one_line(const Schedule& schedule) {
  std::string text = to_csv(schedule);
  while (text.ends_with('\n')) text.pop_back();
  std::ranges::replace(text, '\n', kBetweenRanks);
  return text;
}

std::optional<Schedule> schedule_named(std::string_view pipeline, std::uint32_t chunks, std::uint32_t ranks,
                                       std::uint32_t micro_batches) {
  if (is_own_schedule(pipeline)) {
    Schedule schedule = own_schedule(pipeline);
    if (schedule.ranks.size() != ranks || schedule.micro_batches != micro_batches) return std::nullopt;
    return schedule;
  }
  const ScheduleKind kind = parse_schedule_kind(pipeline);
  return make_schedule({.kind = kind,
                        .ranks = ranks,
                        .micro_batches = micro_batches,
                        .chunks = chunks > 0 ? chunks : usual_chunks(kind)});
}

}  // namespace trireme::plan
