#include "trireme/cli/watched_training.h"

#include <signal.h>

#include <algorithm>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/cli/job_runner.h"

namespace trireme::cli {
namespace {

constexpr std::string_view kUs = "trireme: ";  // how messages of the command begin

/// An earlier drill in the same folder must not be taken for this one.
void remove_traces(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run)) return;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (observe::is_step_trace(entry.path().filename().string())) std::filesystem::remove(entry.path());
  }
}

}  // namespace

WatchedTraining::WatchedTraining(launch::Supervisor& supervisor, std::vector<std::string> arguments,
                                 const std::filesystem::path& run, std::filesystem::path log, Lane lanes)
    : supervisor_(supervisor), run_(run), log_(std::move(log)), lanes_(lanes), traces_(run) {
  remove_traces(run);
  std::vector<std::string> argv{program_beside("trireme"), "train"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  argv.insert(argv.end(), {"--out", run.string(), "--json", "--trace-steps"});
  launcher_ = supervisor_.start({.name = "trireme train", .argv = std::move(argv), .log = log_});
}

bool WatchedTraining::watch(int wake) {
  for (const launch::Exit& exit : supervisor_.wait(Deadline::in(10ms), wake)) status_ = exit.status;
  take_events();
  return supervisor_.alive() > 0;
}

void WatchedTraining::take_events() {
  for (const observe::StepEvent& event : traces_.next()) {
    events_.push_back(event);
    if (event.kind != observe::StepEvent::Kind::kCommit) continue;
    furthest_ = std::max(furthest_, event.step + 1);
    if (event.unit) ++units_;
  }
}

std::vector<observe::StepEvent> WatchedTraining::sorted_events() const {
  auto events = events_;
  std::ranges::stable_sort(events, {}, &observe::StepEvent::at);
  return events;
}

Step WatchedTraining::step() const { return units_ > 0 ? units_ / lanes_ : furthest_; }

void WatchedTraining::ask_to_stop() const { ::kill(launcher_, SIGINT); }

nlohmann::json WatchedTraining::result() const {
  std::istringstream text(read_file(log_));
  nlohmann::json result;
  for (std::string line; std::getline(text, line);) {
    auto parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object() && parsed.contains("parameters_sha256")) result = std::move(parsed);
  }
  return result;
}

std::string WatchedTraining::failure() const {
  if (status_ == 0 && !result().is_null()) return "";
  std::istringstream text(read_file(log_));
  std::string words;
  for (std::string line; std::getline(text, line);) {
    if (words.empty() && line.starts_with(kUs)) line.erase(0, kUs.size());
    if (!line.starts_with('{')) words += (words.empty() ? "" : "\n") + line;
  }
  return words.empty() ? fmt::format("it ended with status {}; see {}", status_, log_.string()) : words;
}

}  // namespace trireme::cli
