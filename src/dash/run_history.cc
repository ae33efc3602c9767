#include "dash/run_history.h"

#include <algorithm>
#include <limits>
#include <set>

namespace trireme::dash {
namespace {

constexpr std::size_t kMostNotable = 400;
constexpr std::size_t kMostViews = 2000;

/// Events that say something of the run, not of one process's routine.
bool is_notable(const LogEvent& event) {
  static const std::set<std::string> kKeys{"member_lost",
                                           "member_joined",
                                           "member_left",
                                           "members_apart",
                                           "members_reunited",
                                           "members_awaited",
                                           "view_formed",
                                           "shards_lost",
                                           "scale_requested",
                                           "stop_requested",
                                           "stragglers_found",
                                           "stragglers_gone",
                                           "work_rewound",
                                           "job_finished",
                                           "job_failed",
                                           "job_taken_over",
                                           "master_was_suspended",
                                           "training_continued",
                                           "checkpoint_failed",
                                           "checkpoint_unusable",
                                           "resumed_from_checkpoint",
                                           "best_model_saved",
                                           "evaluated",
                                           "training_stopping",
                                           "state_not_saved",
                                           "last_copy_awaited"};
  return kKeys.contains(event.key) || event.level == "error";
}

}  // namespace

void RunHistory::add(const LogEvent& event) {
  const bool by_master = event.process == "master";
  if (event.key == "view_formed" && by_master) {
    const auto view = static_cast<std::uint64_t>(event.number("view"));
    if (view == 1) {  // another launch
      began_ = event.time;
      ended_ = lost_s_ = lost_since_ = 0;
    }
    if (views_.size() >= kMostViews) views_.erase(views_.begin());
    views_.push_back({.time = event.time,
                      .view = view,
                      .workers = static_cast<std::uint64_t>(event.number("workers")),
                      .servers = static_cast<std::uint64_t>(event.number("servers")),
                      .reason = event.text("reason")});
  } else if (event.key == "member_lost" && by_master) {
    if (lost_since_ == 0) lost_since_ = event.time;
  } else if (event.key == "training_continued" && by_master) {
    const double took = event.number("seconds");
    lost_s_ += took;
    lost_since_ = 0;
    ++recoveries_;
    if (!views_.empty()) views_.back().recovery_s = took;
  } else if (event.key == "checkpoint_written") {
    checkpoints_.push_back({.time = event.time,
                            .step = static_cast<std::uint64_t>(event.number("step")),
                            .bytes = event.number("bytes"),
                            .pause_s = event.number("pause_s"),
                            .seconds = event.number("seconds")});
    last_checkpoint_ = std::max(last_checkpoint_, event.time);
  } else if (event.key == "checkpoint_failed") {
    checkpoints_.push_back({.time = event.time,
                            .step = static_cast<std::uint64_t>(event.number("step")),
                            .failure = event.text("reason")});
  } else if ((event.key == "job_finished" || event.key == "job_failed") && by_master) {
    ended_ = event.time;
    lost_since_ = 0;
  }
  if (checkpoints_.size() > kMostViews) checkpoints_.erase(checkpoints_.begin());
  if (!is_notable(event)) return;
  notable_.push_back(event);
  if (notable_.size() > kMostNotable) notable_.pop_front();
}

double RunHistory::goodput(double now) const {
  if (began_ == 0) return std::numeric_limits<double>::quiet_NaN();
  const double end = ended_ > 0 ? ended_ : now;
  const double lost = lost_s_ + (lost_since_ > 0 ? std::max(0.0, end - lost_since_) : 0);
  const double all = end - began_;
  return all > 0 ? std::clamp(1 - lost / all, 0.0, 1.0) : 1.0;
}

nlohmann::json RunHistory::to_json() const {
  nlohmann::json views = nlohmann::json::array();
  for (const ViewFormed& view : views_) {
    views.push_back(view);
    views.back()["recovery_s"] = view.recovery_s ? nlohmann::json(*view.recovery_s) : nlohmann::json();
  }
  nlohmann::json events = nlohmann::json::array();
  for (const LogEvent& event : notable_) {
    events.push_back({{"time", event.time},
                      {"process", event.process},
                      {"level", event.level},
                      {"event", event.key},
                      {"message", event.message},
                      {"fields", event.fields}});
  }
  return {{"views", views},    {"checkpoints", checkpoints_}, {"events", events},
          {"lost_s", lost_s_}, {"recoveries", recoveries_},   {"began", began_},
          {"ended", ended_}};
}

}  // namespace trireme::dash
