#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "net/http/server.h"

namespace trireme::net {

/// Writes an answer to a scraper, family by family: OpenMetrics 1.0 (with units, `# EOF`), or Prometheus' older text
/// format for those that do not ask for it. A value.
class MetricsText {
 public:
  using Labels = std::map<std::string, std::string>;

  explicit MetricsText(bool open_metrics) : open_metrics_(open_metrics) {}

  /// Begins a family. `name` is without `_total`, `type` one of counter, gauge, histogram, info.
  void family(const std::string& name, std::string_view type, std::string_view help, std::string_view unit = "");

  /// Adds a value to the family that was begun last.
  void sample(double value, const Labels& labels = {});

  /// Adds what took up to each of `bounds`, in seconds, how often; one more count is of what took longer.
  void histogram(std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum,
                 const Labels& labels = {});

  /// Returns all of it. Call it once, at the end.
  std::string finish();

 private:
  void line(std::string_view suffix, const Labels& labels, double value);

  const bool open_metrics_;
  std::string text_;
  std::string name_;    // of the family
  std::string suffix_;  // of its samples
};

/// Returns whether the client asks for OpenMetrics.
bool asks_for_open_metrics(const HttpRequest& request);

/// Returns what a MetricsText has written as an answer, with the type of its format.
HttpReply metrics_reply(std::string text, bool open_metrics);

}  // namespace trireme::net
