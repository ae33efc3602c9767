#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "dash/log_lines.h"

namespace trireme::dash {

/// What has happened to a run, put together from the events of its processes. A value.
class RunHistory {
 public:
  /// A membership of the job.
  struct ViewFormed {
    double time = 0;
    std::uint64_t view = 0;
    std::uint64_t workers = 0;
    std::uint64_t servers = 0;
    std::string reason;
    std::optional<double> recovery_s;  ///< from the loss that caused it to the next step
    NLOHMANN_DEFINE_TYPE_INTRUSIVE_WITH_DEFAULT(ViewFormed, time, view, workers, servers, reason)
  };
  struct Checkpoint {
    double time = 0;
    std::uint64_t step = 0;
    double bytes = 0;
    double pause_s = 0;
    double seconds = 0;
    std::string failure;  ///< empty = it is complete
    NLOHMANN_DEFINE_TYPE_INTRUSIVE_WITH_DEFAULT(Checkpoint, time, step, bytes, pause_s, seconds, failure)
  };

  void add(const LogEvent& event);

  const std::vector<ViewFormed>& views() const { return views_; }
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }
  const std::deque<LogEvent>& notable() const {
    return notable_;
  }  ///< what a person wants to know; the last few hundred

  /// When the last complete checkpoint was written: seconds since 1970; 0 = never.
  double last_checkpoint() const { return last_checkpoint_; }

  /// Returns the share of the time since the current launch began in which steps were made, 0 to 1; NaN before it
  /// began.
  double goodput(double now) const;

  /// All of it but the goodput, for the page.
  nlohmann::json to_json() const;

 private:
  std::vector<ViewFormed> views_;
  std::vector<Checkpoint> checkpoints_;
  std::deque<LogEvent> notable_;
  double began_ = 0;  // the current launch: its first view
  double ended_ = 0;  // 0 = it goes on
  double lost_s_ = 0;
  double lost_since_ = 0;  // 0 = steps are made
  double last_checkpoint_ = 0;
  std::uint64_t recoveries_ = 0;
};

}  // namespace trireme::dash
