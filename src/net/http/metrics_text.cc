#include "net/http/metrics_text.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace trireme::net {
namespace {

constexpr const char* kOpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string metric_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void MetricsText::family(const std::string& name, std::string_view type, std::string_view help, std::string_view unit) {
  name_ = name;
  const bool info = type == "info";
  suffix_ = type == "counter" ? "_total" : info ? "_info" : "";
  const std::string shown = open_metrics_ ? name : name + suffix_;
  text_ += fmt::format("# TYPE {} {}\n", shown, info && !open_metrics_ ? "gauge" : type);
  if (open_metrics_ && !unit.empty()) text_ += fmt::format("# UNIT {} {}\n", shown, unit);
  text_ += fmt::format("# HELP {} {}\n", shown, help);
}

void MetricsText::sample(double value, const Labels& labels) { line(suffix_, labels, value); }

void MetricsText::histogram(std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum,
                            const Labels& labels) {
  std::uint64_t below = 0;
  Labels with = labels;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (i < counts.size()) below += counts[i];
    with["le"] = metric_value(bounds[i]);
    line("_bucket", with, static_cast<double>(below));
  }
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  with["le"] = "+Inf";
  line("_bucket", with, all);
  line("_sum", labels, sum);
  line("_count", labels, all);
}

std::string MetricsText::finish() {
  if (open_metrics_) text_ += "# EOF\n";
  return std::move(text_);
}

void MetricsText::line(std::string_view suffix, const Labels& labels, double value) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty()) {
    text_ += '{';
    bool first = true;
    for (const auto& [key, text] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", first ? "" : ",", key, label_value(text));
      first = false;
    }
    text_ += '}';
  }
  text_ += fmt::format(" {}\n", metric_value(value));
}

bool asks_for_open_metrics(const HttpRequest& request) {
  return request.accept.find("application/openmetrics-text") != std::string::npos;
}

HttpReply metrics_reply(std::string text, bool open_metrics) {
  return {.type = open_metrics ? kOpenMetricsType : kPrometheusType, .body = std::move(text)};
}

}  // namespace trireme::net
