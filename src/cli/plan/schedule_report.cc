#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/flags/numbers.h"
#include "cli/plan/options.h"
#include "cli/plan/quantities.h"
#include "plan/schedule/schedule_picture.h"
#include "plan/schedule/schedule_text.h"

namespace trireme::cli {
namespace {

constexpr const char* kTimes = "the times of forward, input gradient and weight gradient, not all 0: 1:1:1";

/// What is to be drawn; `shape` is known unless it comes from a file.
struct Drawn {
  plan::Schedule schedule;
  std::optional<plan::ScheduleShape> shape;
};

Drawn drawn(const PlanFlags& flags) {
  if (!flags.schedule_file.empty()) {
    if (!flags.schedule.empty() || flags.stages || flags.micro_batches || flags.chunks) {
      fail<InvalidArgument>("--schedule-file has stages and micro-batches of its own: leave the other flags out");
    }
    try {
      return {plan::schedule_from_csv(read_file(flags.schedule_file), flags.schedule_file), std::nullopt};
    } catch (const InvalidArgument& problem) {
      fail<InvalidArgument>("{}: {}", flags.schedule_file, problem.what());
    }
  }
  if (flags.schedule.empty()) fail<InvalidArgument>("--stages: which schedule? --schedule 1f1b, zb-v, ...");
  plan::ScheduleShape shape{.kind = plan::parse_schedule_kind(flags.schedule), .ranks = *flags.stages};
  shape.micro_batches = flags.micro_batches.value_or(2 * shape.ranks);
  shape.chunks = flags.chunks.value_or(plan::usual_chunks(shape.kind));
  return {plan::make_schedule(shape), shape};
}

plan::StageTimes times_of(const PlanFlags& flags) {
  const std::vector<double> times = parse_list("--times", flags.times, 3, kTimes);
  if (times[0] + times[1] + times[2] <= 0) refuse_number("--times", flags.times, kTimes);
  return {.forward = times[0], .backward_input = times[1], .backward_weight = times[2]};
}

bool has_messages(const plan::Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<plan::Action>& actions) {
    return std::ranges::any_of(actions, [](const plan::Action& action) { return plan::is_message(action.kind); });
  });
}

std::string figures(const Drawn& what, const plan::Evaluation& result, const PlanFlags& flags) {
  const plan::Schedule& schedule = what.schedule;
  const double chunks = static_cast<double>(schedule.stages()) / static_cast<double>(schedule.ranks.size());
  double idle = 0;
  for (const plan::RankUse& rank : result.ranks) idle = std::max(idle, rank.idle_inside());
  std::string text = fmt::format("time {:g}, bubble {:.1f} %", result.makespan, 100 * result.bubble);
  if (what.shape && flags.times == PlanFlags{}.times && flags.message == 0) {
    if (const auto formula = plan::bubble_formula(*what.shape))
      text += fmt::format(" (formula {:.1f} %)", 100 * *formula);
  }
  text += fmt::format(", at most {:g} idle between a rank's first and last action\n", idle);
  return text + fmt::format("activations: at most {:g} micro-batches on a rank\n", result.peak_activations() / chunks);
}

std::string schedule_json(const Drawn& what, const plan::Evaluation& result) {
  nlohmann::ordered_json json = {{"schedule", what.schedule.name},
                                 {"stages", what.schedule.stages()},
                                 {"micro_batches", what.schedule.micro_batches},
                                 {"makespan", result.makespan},
                                 {"bubble", result.bubble},
                                 {"bubble_formula", nullptr},
                                 {"ranks", nlohmann::ordered_json::array()}};
  if (what.shape) {
    if (const auto formula = plan::bubble_formula(*what.shape)) json["bubble_formula"] = *formula;
  }
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    std::vector<std::string> actions;
    for (const plan::Action& action : what.schedule.ranks[rank]) actions.push_back(to_text(action));
    json["ranks"].push_back({{"busy", result.ranks[rank].busy},
                             {"idle_inside", result.ranks[rank].idle_inside()},
                             {"peak_activations", result.ranks[rank].peak_activations},
                             {"actions", actions}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

PlanAnswer answer_schedule(const PlanFlags& flags) {
  const Drawn what = drawn(flags);
  const plan::Schedule& schedule = what.schedule;
  const plan::StageTimes times = times_of(flags);
  const plan::Evaluation result = plan::evaluate(schedule, std::span(&times, 1), flags.message);
  if (!flags.svg.empty()) write_text(flags.svg, plan::svg_picture(schedule, result));
  if (!flags.csv.empty()) {
    const bool add = flags.messages && !has_messages(schedule);
    write_text(flags.csv, plan::to_csv(add ? plan::with_messages(schedule) : schedule));
  }
  if (flags.json) return {schedule_json(what, result), 0};
  std::string text = fmt::format("{}: {} stages on {} ranks, {} micro-batches\n\n", schedule.name, schedule.stages(),
                                 schedule.ranks.size(), schedule.micro_batches);
  return {text + plan::text_picture(schedule, result) + "\n" + figures(what, result, flags), 0};
}

}  // namespace trireme::cli
