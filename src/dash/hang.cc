#include "dash/hang.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"

namespace trireme::dash {
namespace {

/// Whom the operation that it is in still lacks: "worker 2, server 0".
std::vector<std::string> missing(const cluster::Activity& activity, const cluster::JobStatus& status) {
  std::vector<std::string> names;
  for (const Rank rank : activity.workers) {
    if (rank < status.workers.size()) names.push_back(fmt::format("worker {}", status.workers[rank].slot));
  }
  for (const Rank rank : activity.servers) {
    if (rank < status.servers.size()) names.push_back(fmt::format("server {}", status.servers[rank].slot));
  }
  return names;
}

std::string doing(const cluster::MemberStatus& member, const cluster::JobStatus& status) {
  const cluster::Activity& activity = member.activity;
  if (activity.what.empty()) return "between two steps, or its program does not tell";
  std::string text = fmt::format("{} of step {}, for {:.1f} s", activity.what,
                                 activity.step > 0 ? activity.step : member.clock, activity.for_s + member.silent_s);
  if (activity.operation.empty()) return text;
  text += ": " + activity.operation;
  const std::vector<std::string> names = missing(activity, status);
  return names.empty() ? text : fmt::format("{}, which lacks {}", text, fmt::join(names, ", "));
}

void note_silent(const std::string& role, const std::vector<cluster::MemberStatus>& members, double silent_after,
                 HangReport& report) {
  for (const cluster::MemberStatus& member : members) {
    if (member.silent_s < silent_after) continue;
    std::string what =
        fmt::format("not heard of for {:.1f} s (pid {} on {})", member.silent_s, member.pid, member.host);
    if (!member.activity.what.empty()) {
      what += fmt::format("; before that it was in {} of step {}", member.activity.what, member.activity.step);
    }
    report.culprits.push_back(
        {.who = fmt::format("{} {}", role, member.slot), .what = what, .since_s = member.silent_s});
  }
}

}  // namespace

HangReport judge_hang(const cluster::JobStatus& status, double silent_after, double slow_after) {
  HangReport report;
  if (status.state == cluster::JobPhase::kFinished || status.state == cluster::JobPhase::kFailed) return report;
  note_silent("worker", status.workers, silent_after, report);
  note_silent("server", status.servers, silent_after, report);
  std::vector<const cluster::MemberStatus*> others;
  std::set<std::string> lacking;  // in operations that others wait in
  for (const cluster::MemberStatus& worker : status.workers) {
    if (worker.silent_s >= silent_after) continue;
    if (worker.activity.what == "wait" && worker.activity.for_s >= slow_after) {
      report.waiting.push_back(fmt::format("worker {}: {}", worker.slot, doing(worker, status)));
      for (const std::string& name : missing(worker.activity, status)) lacking.insert(name);
    } else {
      others.push_back(&worker);
    }
  }
  if (report.culprits.empty() && !report.waiting.empty()) {
    for (const cluster::MemberStatus* worker : others) {
      report.culprits.push_back({.who = fmt::format("worker {}", worker->slot),
                                 .what = doing(*worker, status),
                                 .since_s = worker->activity.for_s + worker->silent_s});
    }
  }
  if (report.culprits.empty()) {  // all wait, each in an operation of its own; or a server has too much to do
    for (const std::string& name : lacking) report.culprits.push_back({.who = name, .what = "others wait for it"});
  }
  report.hangs = !report.culprits.empty() || !report.waiting.empty() || status.state == cluster::JobPhase::kWaiting;
  if (!report.hangs) return report;
  std::vector<std::string> names;
  for (const Culprit& culprit : report.culprits) names.push_back(culprit.who);
  if (!names.empty() && !report.waiting.empty()) {
    report.summary = fmt::format("{} wait for {}", counted(report.waiting.size(), "worker"), fmt::join(names, ", "));
  } else if (!names.empty()) {
    report.summary = fmt::format("{}: {}", fmt::join(names, ", "), report.culprits.front().what);
  } else if (status.state == cluster::JobPhase::kWaiting) {
    report.summary = status.reason;
  } else {
    report.summary = "all workers wait: for a server, or for the network";
  }
  return report;
}

nlohmann::json to_json(const HangReport& report) {
  nlohmann::json culprits = nlohmann::json::array();
  for (const Culprit& culprit : report.culprits) {
    culprits.push_back({{"who", culprit.who}, {"what", culprit.what}, {"since_s", culprit.since_s}});
  }
  return {{"hangs", report.hangs}, {"summary", report.summary}, {"waiting", report.waiting}, {"culprits", culprits}};
}

}  // namespace trireme::dash
