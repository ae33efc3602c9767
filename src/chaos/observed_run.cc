#include "chaos/observed_run.h"

#include <signal.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "launch/companion.h"

namespace trireme::chaos {
namespace {

constexpr std::string_view kUs = "trireme: ";  // prefix of the command's messages

/// Removes the traces of an earlier chaos run in the same folder.
void remove_traces(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run)) return;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (observe::is_step_trace(entry.path().filename().string())) std::filesystem::remove(entry.path());
  }
}

}  // namespace

ObservedRun::ObservedRun(launch::Supervisor& supervisor, const ObservedCommand& command,
                         const std::filesystem::path& run, std::filesystem::path log, Lane lanes)
    : supervisor_(supervisor), run_(run), log_(std::move(log)), lanes_(lanes), traces_(run) {
  remove_traces(run);
  std::vector<std::string> argv{launch::companion_program("trireme")};
  argv.insert(argv.end(), command.words.begin(), command.words.end());
  argv.insert(argv.end(), {"--out", run.string(), "--json", "--trace-steps"});
  if (!command.program.empty()) argv.emplace_back("--");
  argv.insert(argv.end(), command.program.begin(), command.program.end());
  const std::string name = "trireme " + command.words.front();
  launcher_ = supervisor_.start({.name = name, .argv = std::move(argv), .log = log_});
}

bool ObservedRun::watch(int wake) {
  for (const launch::Exit& exit : supervisor_.wait(Deadline::in(10ms), wake)) status_ = exit.status;
  take_events();
  return supervisor_.alive() > 0;
}

void ObservedRun::take_events() {
  for (const observe::StepEvent& event : traces_.next()) {
    events_.push_back(event);
    if (event.kind != observe::StepEvent::Kind::kCommit) continue;
    furthest_ = std::max(furthest_, event.step + 1);
    if (event.unit) ++units_;
  }
}

std::vector<observe::StepEvent> ObservedRun::sorted_events() const {
  auto events = events_;
  std::ranges::stable_sort(events, {}, &observe::StepEvent::at);
  return events;
}

Step ObservedRun::step() const { return units_ > 0 ? units_ / lanes_ : furthest_; }

void ObservedRun::ask_to_stop() const { ::kill(launcher_, SIGINT); }

nlohmann::json ObservedRun::result() const {
  std::istringstream text(read_file(log_));
  nlohmann::json result;
  for (std::string line; std::getline(text, line);) {
    auto parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object() && parsed.contains("run")) result = std::move(parsed);
  }
  return result;
}

std::string ObservedRun::failure() const {
  if (status_ == 0 && !result().is_null()) return "";
  std::istringstream text(read_file(log_));
  std::string words;
  for (std::string line; std::getline(text, line);) {
    if (words.empty() && line.starts_with(kUs)) line.erase(0, kUs.size());
    if (!line.starts_with('{')) words += (words.empty() ? "" : "\n") + line;
  }
  return words.empty() ? fmt::format("it ended with status {}; see {}", status_, log_.string()) : words;
}

}  // namespace trireme::chaos
