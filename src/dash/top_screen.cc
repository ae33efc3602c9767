#include "dash/top_screen.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/spans.h"
#include "dash/hang.h"
#include "observe/text_width.h"

namespace trireme::dash {
namespace {

std::string coloured(const std::string& text, const char* code, const TopOptions& options) {
  return options.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

std::string share_bar(double share, int width) {
  const int filled = std::clamp(static_cast<int>(std::lround(share * width)), 0, width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "·";
  return bar;
}

/// Cuts plain text so that it fits.
std::string fitting(const std::string& text, int columns) {
  return observe::fit(observe::printable(text), std::max(1, columns));
}

}  // namespace

std::string bound_by(const std::vector<double>& phases) {
  if (phases.size() < kPhaseNames.size()) return "";
  const double all = std::accumulate(phases.begin(), phases.end(), 0.0);
  if (all <= 0) return "";
  const double compute = phases[1] + phases[2];
  std::string word = "compute";
  double most = compute;
  for (const std::size_t phase : {0UL, 3UL, 4UL, 5UL}) {
    if (phases[phase] > most) {
      most = phases[phase];
      word = kPhaseNames[phase];
    }
  }
  return word;
}

std::string render_top(const cluster::JobStatus& status, const RunHistory& history, double now,
                       const TopOptions& options) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& text, const char* colour = nullptr) {
    const std::string cut = fitting(text, options.columns);
    lines.push_back(colour == nullptr ? cut : coloured(cut, colour, options));
  };
  add(fmt::format("{}  {}  {}", options.run, cluster::to_string(status.state), status.reason), "1");
  const bool known = status.plan.steps > 0;
  const double share = known ? static_cast<double>(status.now.step) / static_cast<double>(status.plan.steps) : 0;
  std::string progress = known ? fmt::format("{} {:5.1f} %  step {} of {}", share_bar(share, 20), 100 * share,
                                             status.now.step, status.plan.steps)
                               : fmt::format("step {}", status.now.step);
  if (std::isfinite(status.now.loss)) progress += fmt::format("  loss {:.4f}", status.now.loss);
  for (const NamedValue& metric : status.now.metrics) progress += "  " + trireme::describe(metric);
  for (const auto& [name, value] : status.averages) progress += fmt::format("  {} {:.4g}", name, value);
  add(progress);
  std::string speed = fmt::format("{:.0f} samples/s  {:.1f} steps/s", status.now.samples_per_s, status.steps_per_s);
  if (std::isfinite(history.goodput(now))) speed += fmt::format("  goodput {:.1f} %", 100 * history.goodput(now));
  if (history.last_checkpoint() > 0) speed += fmt::format("  checkpoint {:.0f} s ago", now - history.last_checkpoint());
  add(speed);
  const HangReport hang = judge_hang(status);
  if (hang.hangs) add("! " + hang.summary, "31;1");
  if (!status.stragglers.empty()) add("slow: " + cluster::describe(status.stragglers), "33");
  add("");
  add(fmt::format("{:<10} {:>8} {:<15} {:>8} {:>10} {:>5} {:>8} {:<9} {}", "", "pid", "host", "step", "samples/s",
                  "CPU", "memory", "bound by", "doing"),
      "2");
  const auto member_row = [&](const std::string& role, const cluster::MemberStatus& member, const std::string& note) {
    const std::string doing = member.silent_s >= 1 ? fmt::format("silent for {:.1f} s", member.silent_s)
                              : member.activity.what.empty()
                                  ? note
                                  : fmt::format("{} of step {}", member.activity.what, member.activity.step);
    add(fmt::format("{:<10} {:>8} {:<15} {:>8} {:>10} {:>5} {:>8} {:<9} {}", fmt::format("{} {}", role, member.slot),
                    member.pid, fitting(member.host, 15), role == "worker" ? std::to_string(member.clock) : "",
                    member.samples_per_s > 0 ? fmt::format("{:.0f}", member.samples_per_s) : "",
                    member.load.cores > 0 ? fmt::format("{:.0f} s", member.load.cpu_s) : "",
                    member.load.resident > 0 ? fmt::format("{} MiB", member.load.resident / (1024 * 1024)) : "",
                    bound_by(member.phases), doing),
        member.silent_s >= 1 ? "31" : nullptr);
  };
  for (const auto& worker : status.workers) member_row("worker", worker, "");
  for (const auto& worker : status.others) member_row("worker", worker, "catches up, or is in reserve");
  for (const auto& server : status.servers) {
    member_row("server", server, fmt::format("{} shards, {} copies", server.primary, server.copies));
  }
  const std::size_t room = options.rows > 2 ? static_cast<std::size_t>(options.rows) : 2;
  if (lines.size() + 2 < room && !history.notable().empty()) {
    add("");
    const std::size_t count = std::min(history.notable().size(), room - lines.size());
    for (std::size_t i = history.notable().size() - count; i < history.notable().size(); ++i) {
      const LogEvent& event = history.notable()[i];
      const auto time = static_cast<std::time_t>(event.time);
      std::string text = fmt::format("{:%H:%M:%S} {}: {}", fmt::gmtime(time), event.process, event.message);
      if (const std::string reason = event.text("reason"); !reason.empty()) text += ": " + reason;
      add(text, event.level == "error" ? "31" : event.level == "warning" ? "33" : nullptr);
    }
  }
  if (lines.size() > room) {
    const std::size_t hidden = lines.size() - room + 1;
    lines.resize(room - 1);
    lines.push_back(fmt::format("… {} more lines", hidden));
  }
  std::string screen;
  for (const std::string& line : lines) screen += line + "\n";
  return screen;
}

}  // namespace trireme::dash
