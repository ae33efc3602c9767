#include "trireme/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace trireme {

double Metric::value() const {
  if (!(count > 0)) return std::numeric_limits<double>::quiet_NaN();
  const double mean = sum / count;
  switch (form) {
    case MetricForm::kMean:
      return mean;
    case MetricForm::kRoot:
      return std::sqrt(mean);
    case MetricForm::kExp:
      return std::exp(mean);
  }
  return mean;
}

void add(Metrics& to, const Metrics& more) {
  for (const Metric& metric : more) {
    const auto found = std::ranges::find(to, metric.name, &Metric::name);
    if (found == to.end()) {
      to.push_back(metric);
    } else {
      found->sum += metric.sum;
      found->count += metric.count;
    }
  }
}

std::vector<NamedValue> values_of(const Metrics& metrics) {
  std::vector<NamedValue> values;
  for (const Metric& metric : metrics) values.push_back({metric.name, metric.value()});
  return values;
}

double find_value(const std::vector<NamedValue>& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &NamedValue::name);
  return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

std::string describe(const NamedValue& value) {
  if (value.name.find("accuracy") != std::string::npos)
    return fmt::format("{} {:.2f} %", value.name, 100 * value.value);
  return fmt::format("{} {:.4f}", value.name, value.value);
}

Goal Goal::parse(const std::string& text) {
  const std::size_t at = std::min(text.find(">="), text.find("<="));
  if (at == std::string::npos || at == 0) {
    fail<InvalidArgument>("'{}' is no goal: give a metric, >= or <=, and a number, such as accuracy>=0.9", text);
  }
  Goal goal{.metric = text.substr(0, at), .at_least = text[at] == '>'};
  while (!goal.metric.empty() && goal.metric.back() == ' ') goal.metric.pop_back();
  const char* first = text.data() + at + 2;
  const char* last = text.data() + text.size();
  while (first < last && *first == ' ') ++first;
  const auto [end, error] = std::from_chars(first, last, goal.value);
  if (error != std::errc() || end != last || !std::isfinite(goal.value)) {
    fail<InvalidArgument>("'{}' is no goal: '{}' is not a number", text, std::string(first, last));
  }
  return goal;
}

std::string Goal::describe() const { return fmt::format("{}{}{:g}", metric, at_least ? ">=" : "<=", value); }

}  // namespace trireme
