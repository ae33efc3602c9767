#include "chaos/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "observe/table.h"

namespace trireme::chaos {
namespace {

observe::Json or_null(std::optional<double> value) { return value ? observe::Json(*value) : observe::Json(nullptr); }

observe::Json scores_json(const std::vector<NamedValue>& scores) {
  observe::Json all = observe::Json::object();
  for (const NamedValue& score : scores) all[score.name] = score.value;
  return all;
}

std::string as_seconds(std::optional<double> value) { return value ? fmt::format("{:.2f}", *value) : "–"; }

std::string as_seconds(const observe::Json& value) {
  return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : "–";
}

std::string name_of(const Fault& fault) {
  const std::string role = to_string(fault.role);
  const bool many = fault.role == FaultRole::kWorker || fault.role == FaultRole::kServer;
  return many ? fmt::format("{} {}", role, fault.slot) : role;
}

std::uint64_t redone_by_all(const ChaosReport& report) {
  std::uint64_t sum = 0;
  for (const Recovery& recovery : report.recoveries) sum += recovery.steps_redone;
  return sum;
}

bool compares(const ChaosReport& report) { return report.reference && report.not_compared.empty(); }

constexpr std::size_t kListed = 50;  // more than that nobody reads; all are in the JSON

std::string list_faults(const ChaosReport& report) {
  if (report.recoveries.size() > kListed) return fmt::format("{} faults\n", report.recoveries.size());
  observe::TableCells cells{
      {"at step", "who", "fault", "training goes on, s", "victim is back, s", "redone", "what was done"}};
  for (const Recovery& recovery : report.recoveries) {
    const Fault& fault = recovery.injected.fault;
    cells.push_back({std::to_string(recovery.injected.step), name_of(fault), to_string(fault.kind),
                     as_seconds(recovery.seconds), as_seconds(recovery.back_seconds),
                     std::to_string(recovery.steps_redone), recovery.injected.note});
  }
  return observe::aligned(cells, {true, false, false, true, true, true, false});
}

std::string list_summary(const ChaosReport& report) {
  observe::TableCells cells{
      {"role", "fault", "times", "recovered", "median s", "worst s", "back, median s", "redone, worst"}};
  for (const observe::Json& row : summarise(report.recoveries)) {
    cells.push_back({row["role"].get<std::string>(), row["fault"].get<std::string>(), row["times"].dump(),
                     row["recovered"].dump(), as_seconds(row["median_seconds"]), as_seconds(row["worst_seconds"]),
                     as_seconds(row["back_median_seconds"]), row["steps_redone_worst"].dump()});
  }
  return observe::aligned(cells, {false, false, true, true, true, true, true, true});
}

std::string list_growth(const ChaosReport& report) {
  observe::TableCells cells{{"process", "holds", "first third", "last third", "allowed", ""}};
  for (const Growth& growth : report.growth) {
    const auto figure = [&](double value) {
      return growth.what == "memory" ? fmt::format("{:.1f} MiB", value / (1 << 20)) : fmt::format("{:.0f}", value);
    };
    cells.push_back({growth.process, growth.what, figure(growth.first), figure(growth.last), figure(growth.allowed),
                     growth.grown() ? "GROWS" : "ok"});
  }
  return observe::aligned(cells, {false, false, true, true, true, false});
}

std::string list_totals(const ChaosReport& report) {
  std::string text = fmt::format("{:.0f} steps in {:.1f} s", report.pace.steps, report.pace.seconds);
  if (report.reference) {
    text += fmt::format("; undisturbed {:.0f} steps in {:.1f} s: goodput {:.1f} %", report.reference->steps,
                        report.reference->seconds, 100 * report.goodput());
  }
  text += fmt::format("\nsteps redone {}, {} missing {}, {} repeated {}\n", redone_by_all(report), report.counted,
                      report.audit.samples_missing, report.counted, report.audit.samples_repeated);
  if (report.planned > report.recoveries.size()) {
    text += fmt::format(
        "{} of {} faults were injected: the run ended first; give it more steps (--steps) or longer ones (--step-ms)\n",
        report.recoveries.size(), report.planned);
  }
  for (const NamedValue& score : report.scores) {
    const double undisturbed = find_value(report.reference_scores, score.name);
    if (std::isnan(undisturbed)) continue;
    text += fmt::format("{}, undisturbed {}\n", describe(score), describe({score.name, undisturbed}));
  }
  if (!report.not_compared.empty()) text += fmt::format("{} not compared: {}\n", report.compared, report.not_compared);
  if (!compares(report) || report.parameters_sha256.empty()) return text;
  const bool same = report.parameters_sha256 == report.reference_sha256;
  return text + fmt::format("{}: {} the undisturbed run's ({})\n", report.compared, same ? "the same as" : "NOT",
                            report.parameters_sha256.substr(0, 16));
}

}  // namespace

double ChaosReport::goodput() const {
  if (reference && !failure.empty()) return 0;
  return reference && reference->rate() > 0 ? pace.rate() / reference->rate()
                                            : std::numeric_limits<double>::quiet_NaN();
}

std::vector<std::string> problems_of(const ChaosReport& report) {
  std::vector<std::string> problems;
  if (!report.failure.empty()) problems.push_back("the run failed: " + report.failure);
  if (report.failure.empty() && report.recoveries.empty()) {
    problems.emplace_back("no fault was injected, so nothing was tried: it takes more steps (--steps, --step-ms)");
  }
  if (report.failure.empty() && compares(report) && report.parameters_sha256 != report.reference_sha256) {
    problems.push_back(report.reproducible
                           ? fmt::format("the run did not end with the {} of the undisturbed one", report.compared)
                           : fmt::format("two undisturbed runs do not end with the same {} either: the program is not "
                                         "deterministic, so nothing can be said of faults; does it seed "
                                         "(torch::manual_seed) before it makes its model, and read no clock?",
                                         report.compared));
  }
  // A run that failed has not done all its work: that samples are missing says nothing new.
  if (report.audit.samples_repeated > 0 || (report.failure.empty() && report.audit.samples_missing > 0)) {
    problems.push_back(fmt::format("{} {} were missed and {} repeated: {}", report.audit.samples_missing,
                                   report.counted, report.audit.samples_repeated, report.audit.first_problem));
  }
  for (const Growth& growth : report.growth) {
    if (growth.grown()) problems.push_back(fmt::format("{} of {} grow", growth.what, growth.process));
  }
  return problems;
}

std::vector<observe::Json> summarise(std::span<const Recovery> recoveries) {
  struct Group {
    std::uint64_t times = 0;
    std::vector<double> seconds;
    std::vector<double> back;
    std::uint64_t redone = 0;
  };
  std::map<std::pair<FaultRole, FaultKind>, Group> groups;
  for (const Recovery& recovery : recoveries) {
    Group& group = groups[{recovery.injected.fault.role, recovery.injected.fault.kind}];
    ++group.times;
    if (recovery.seconds) group.seconds.push_back(*recovery.seconds);
    if (recovery.back_seconds) group.back.push_back(*recovery.back_seconds);
    group.redone = std::max(group.redone, recovery.steps_redone);
  }
  const auto median_or_null = [](const std::vector<double>& values) {
    return values.empty() ? observe::Json(nullptr) : observe::Json(observe::median(values));
  };
  std::vector<observe::Json> rows;
  for (const auto& [what, group] : groups) {
    rows.push_back({{"role", to_string(what.first)},
                    {"fault", to_string(what.second)},
                    {"times", group.times},
                    {"recovered", group.seconds.size()},
                    {"median_seconds", median_or_null(group.seconds)},
                    {"worst_seconds",
                     group.seconds.empty() ? observe::Json(nullptr) : observe::Json(std::ranges::max(group.seconds))},
                    {"back_median_seconds", median_or_null(group.back)},
                    {"steps_redone_worst", group.redone}});
  }
  return rows;
}

observe::Json to_object(const ChaosReport& report) {
  observe::Json recoveries = observe::Json::array();
  for (const Recovery& recovery : report.recoveries) {
    const InjectedFault& injected = recovery.injected;
    recoveries.push_back({{"role", to_string(injected.fault.role)},
                          {"fault", to_string(injected.fault.kind)},
                          {"slot", injected.fault.slot},
                          {"step", injected.step},
                          {"seconds", or_null(recovery.seconds)},
                          {"back_seconds", or_null(recovery.back_seconds)},
                          {"steps_redone", recovery.steps_redone},
                          {"note", injected.note}});
  }
  observe::Json growth = observe::Json::array();
  for (const Growth& entry : report.growth) {
    growth.push_back({{"process", entry.process},
                      {"what", entry.what},
                      {"first", entry.first},
                      {"last", entry.last},
                      {"allowed", entry.allowed},
                      {"grown", entry.grown()}});
  }
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? observe::Json(nullptr) : observe::Json(text);
  };
  const auto problems = problems_of(report);
  return {{"goodput", report.reference ? observe::Json(report.goodput()) : observe::Json(nullptr)},
          {"steps", report.pace.steps},
          {"seconds", report.pace.seconds},
          {"reference_seconds", report.reference ? observe::Json(report.reference->seconds) : observe::Json(nullptr)},
          {"planned", report.planned},
          {"injected", report.recoveries.size()},
          {"recoveries", std::move(recoveries)},
          {"by_role", summarise(report.recoveries)},
          {"steps_redone", redone_by_all(report)},
          {"counted", report.counted},
          {"samples_missing", report.audit.samples_missing},
          {"samples_repeated", report.audit.samples_repeated},
          {"compared", report.compared},
          {"not_compared", text_or_null(report.not_compared)},
          {"reproducible", report.reproducible},
          {"parameters_sha256", text_or_null(report.parameters_sha256)},
          {"reference_sha256", text_or_null(report.reference_sha256)},
          {"scores", scores_json(report.scores)},
          {"reference_scores", scores_json(report.reference_scores)},
          {"growth", std::move(growth)},
          {"failure", text_or_null(report.failure)},
          {"problems", problems},
          {"passed", problems.empty()},
          {"run", report.folder}};
}

std::string to_text(const ChaosReport& report) {
  std::string text;
  if (!report.recoveries.empty()) text += list_faults(report) + "\n" + list_summary(report) + "\n";
  if (!report.growth.empty()) text += list_growth(report) + "\n";
  text += list_totals(report) + "\n";
  const auto problems = problems_of(report);
  for (const std::string& problem : problems) text += "FAILED: " + problem + "\n";
  if (problems.empty()) {
    text += fmt::format("PASSED: {} fault{} survived\n", report.recoveries.size(),
                        report.recoveries.size() == 1 ? "" : "s");
  }
  return text;
}

}  // namespace trireme::chaos
