#include "dist/loop_reports.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"

namespace trireme::dist {

LoopReports::LoopReports(const observe::RunFolder& folder, Step first) {
  try {
    if (first > 0) observe::drop_rows_after(folder.metrics(), first - 1);
    rows_.emplace(folder.metrics());
    curves_.emplace(folder.tensorboard());
  } catch (const IoError& problem) {
    log_error("metrics_disabled", "metrics are not written from now on", {{"reason", problem.what()}});
  }
}

void LoopReports::add(const std::map<std::string, double>& values, Step step) {
  if (!curves_) return;
  nlohmann::json row = nlohmann::json::object();
  for (const auto& [name, value] : values) {
    const auto [last, first_time] = last_.try_emplace(name, step);
    if (!first_time && step <= std::exchange(last->second, std::max(last->second, step))) continue;
    row[name] = value;
    curves_->add_scalar("train/" + name, value, step);
  }
  if (row.empty()) return;
  row["kind"] = "train";
  row["strategy"] = "own loop";
  row["step"] = step;
  row["time"] = observe::unix_time();
  rows_->append(row);
}

}  // namespace trireme::dist
