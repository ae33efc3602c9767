#include "plan/schedule/schedule_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "plan/schedule/schedule_check.h"

namespace trireme::plan {
namespace {

constexpr std::array<std::pair<std::string_view, ActionKind>, 8> kKinds = {{
    {"F", ActionKind::kForward},
    {"B", ActionKind::kBackward},
    {"I", ActionKind::kBackwardInput},
    {"W", ActionKind::kBackwardWeight},
    {"SEND_F", ActionKind::kSendForward},
    {"RECV_F", ActionKind::kReceiveForward},
    {"SEND_B", ActionKind::kSendBackward},
    {"RECV_B", ActionKind::kReceiveBackward},
}};
constexpr std::size_t kShown = 40;  // characters of a wrong cell

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Takes a number below `limit` from the front of `text`.
std::optional<std::uint32_t> take_number(std::string_view& text, std::uint32_t limit) {
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number >= limit) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<Action> parse_action(std::string_view text) {
  const auto stage = take_number(text, kMostStages);
  if (!stage) return std::nullopt;
  const std::string_view letters = text.substr(0, text.find_first_of("0123456789"));
  const auto* const kind = std::ranges::find(kKinds, letters, &std::pair<std::string_view, ActionKind>::first);
  if (kind == kKinds.end()) return std::nullopt;
  text.remove_prefix(letters.size());
  const auto micro_batch = take_number(text, kMostMicroBatches);
  if (!micro_batch || !text.empty()) return std::nullopt;
  return Action{*stage, kind->second, *micro_batch};
}

/// The cell as it may be shown on a terminal.
std::string shown(std::string_view cell) {
  std::string text(cell.substr(0, kShown));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return cell.size() > kShown ? text + "..." : text;
}

std::vector<Action> parse_row(std::string_view row, std::size_t line, std::size_t rank) {
  std::vector<Action> actions;
  std::size_t cell_number = 0;
  for (std::string_view rest = row;;) {
    ++cell_number;
    const std::size_t comma = rest.find(',');
    const std::string_view cell = trimmed(rest.substr(0, comma));
    if (!cell.empty()) {
      const auto action = parse_action(cell);
      if (!action) {
        fail<InvalidArgument>(
            "line {} (rank {}), cell {}: '{}' is no action: write stage, kind (F, B, I, W, SEND_F, RECV_F, SEND_B, "
            "RECV_B) and micro-batch, as in 0F3; at most {} stages and {} micro-batches",
            line, rank, cell_number, shown(cell), kMostStages, kMostMicroBatches);
      }
      actions.push_back(*action);
    }
    if (comma == std::string_view::npos) return actions;
    rest.remove_prefix(comma + 1);
  }
}

/// Which rank has which stage, and how many there are.
void find_owners(Schedule& schedule) {
  schedule.micro_batches = 0;
  for (Rank rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Action& action : schedule.ranks[rank]) {
      if (action.stage >= schedule.stages()) schedule.rank_of_stage.resize(action.stage + 1, kNobody);
      Rank& owner = schedule.rank_of_stage[action.stage];
      if (owner == kNobody) owner = rank;
      schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
    }
  }
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) text += ',';
      text += to_text(actions[i]);
    }
    text += '\n';
  }
  return text;
}

Schedule schedule_from_csv(std::string_view text, std::string name) {
  Schedule schedule{.name = std::move(name), .micro_batches = 0, .rank_of_stage = {}, .ranks = {}};
  std::size_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::size_t end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (trimmed(row).empty() || row.starts_with('#')) continue;
    schedule.ranks.push_back(parse_row(row, line, schedule.ranks.size()));
  }
  find_owners(schedule);
  check_schedule(schedule);
  return schedule;
}

}  // namespace trireme::plan
