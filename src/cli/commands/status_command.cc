#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/commands/named_job.h"
#include "cli/start/origin.h"
#include "dash/hang.h"
#include "launch/job/page_link.h"
#include "observe/run_folder.h"
#include "observe/table.h"

namespace trireme::cli {
namespace {

struct StatusFlags {
  NamedJob job;
  bool json = false;
};

// ---- A run that goes on.

/// How far it has got: of a loop of unknown length its steps, and what it reports.
std::string describe_progress(const cluster::JobStatus& status) {
  if (status.plan.steps > 0) {
    return fmt::format("step {} of {} (epoch {:.2f}), {:.0f} samples/s, loss {:.4f}", status.now.step,
                       status.plan.steps, status.now.epoch, status.now.samples_per_s, status.now.loss);
  }
  std::string text = fmt::format("step {}", status.now.step);
  for (const auto& [name, value] : status.averages) text += fmt::format(", {} {:.4g}", name, value);
  return text;
}

void add_rows(observe::TableCells& cells, const std::string& role, const std::vector<cluster::MemberStatus>& members,
              const std::string& note) {
  for (const cluster::MemberStatus& member : members) {
    cells.push_back({fmt::format("{} {}", role, member.slot), fmt::format("{}", member.pid), member.host, note});
  }
}

void print(const cluster::JobStatus& status) {
  fmt::print("{}: {}\n", to_string(status.state), status.reason);
  fmt::print("{}\n", describe_progress(status));
  fmt::print("{} of {} workers", status.workers.size(), status.wanted_workers);
  if (status.wanted_servers > 0) fmt::print(" and {} of {} servers", status.servers.size(), status.wanted_servers);
  fmt::print(" are at work\n");
  observe::TableCells cells{{"", "pid", "host", ""}};
  add_rows(cells, "worker", status.workers, "");
  add_rows(cells, "worker", status.others, "catches up, or is in reserve");
  add_rows(cells, "server", status.servers, "");
  fmt::print("{}", observe::aligned(cells, {false, true, false, false}));
  const dash::HangReport hang = dash::judge_hang(status);
  if (hang.hangs && status.state == cluster::JobPhase::kRunning) {
    fmt::print("stands still: {}\n", hang.summary);
    for (const std::string& one : hang.waiting) fmt::print("  {}\n", one);
    for (const dash::Culprit& one : hang.culprits) fmt::print("  {}: {}\n", one.who, one.what);
  }
  if (!status.stragglers.empty()) fmt::print("slow: {}\n", cluster::describe(status.stragglers));
  if (status.copies_due > 0) {
    fmt::print("{} {} of the parameters {} no replica yet: lost with {} server\n", status.copies_due,
               status.copies_due == 1 ? "shard" : "shards", status.copies_due == 1 ? "has" : "have",
               status.copies_due == 1 ? "its" : "their");
  }
}

// ---- A run that has ended.

struct Ended {
  std::string state;  ///< "finished", "stopped", "failed", "interrupted", "unknown"
  std::string reason = {};
  nlohmann::json result = nullptr;
  std::optional<Step> checkpoint = {};  ///< the newest one
};

/// As the launcher left it. Without its last word it was killed; or there was no launcher.
Ended look_at(const observe::RunFolder& folder) {
  Ended ended{.state = "interrupted", .checkpoint = newest_step(folder)};
  if (!std::filesystem::exists(folder.outcome())) {
    const bool launched = std::filesystem::exists(folder.config()) || std::filesystem::exists(folder.program());
    if (!launched) ended.state = "unknown";
    return ended;
  }
  const auto outcome = nlohmann::json::parse(read_file(folder.outcome()), nullptr, /*allow_exceptions=*/false);
  if (!outcome.is_object()) fail<Corrupt>("{} is damaged: it is not JSON", folder.outcome().string());
  ended.result = outcome.value("result", nlohmann::json());
  ended.reason = outcome.value("failure", "");
  if (outcome.value("status", 0) != 0 && !ended.reason.empty()) {
    ended.state = "failed";
  } else if (ended.result.is_object() && ended.result.contains("stopped_because")) {
    ended.state = "stopped";
    ended.reason = ended.result.value("stopped_because", "");
  } else if (outcome.value("stopped", false) && ended.result.is_null()) {
    ended.state = "stopped";
    ended.reason = "asked to stop";
  } else {
    ended.state = "finished";
  }
  return ended;
}

/// What there is to know of a result: "600 steps, test_accuracy 0.9885".
std::string describe_result(const nlohmann::json& result) {
  std::string text = fmt::format("{} steps", result.value("steps", Step{0}));
  const auto add = [&](const nlohmann::json& values, const std::set<std::string>& leave_out) {
    for (const auto& [name, value] : values.items()) {
      if (value.is_number() && !leave_out.contains(name)) text += fmt::format(", {} {:.6g}", name, value.get<double>());
    }
  };
  add(result, {"steps", "wire_bytes", "plain_bytes", "encode_seconds"});
  if (result.contains("metrics")) add(result.at("metrics"), {});
  return text;
}

void print(const Ended& ended, const std::string& run) {
  if (ended.state == "unknown") {
    fmt::print(
        "no launcher works here: if its processes were placed by hand, their master knows how the job goes: trireme "
        "status --master host:port --secret-file FILE\n");
    return;
  }
  if (ended.state == "interrupted") {
    fmt::print("interrupted: the launcher was killed before the end\n");
  } else {
    const std::string result = ended.result.is_object() ? describe_result(ended.result) : "";
    fmt::print("{}{}{}\n", ended.state, result.empty() ? "" : ": ", result);
    if (!ended.reason.empty()) fmt::print("because: {}\n", ended.reason);
  }
  if (ended.checkpoint) fmt::print("its newest checkpoint is of step {}\n", *ended.checkpoint);
  if (ended.state == "finished") return;
  if (ended.checkpoint) {
    fmt::print("to go on: trireme resume {}\n", run);
  } else {
    fmt::print("it has no complete checkpoint: trireme resume {} would start from the beginning\n", run);
  }
}

int show_ended(const observe::RunFolder& folder, const StatusFlags& flags) {
  const std::string& run = flags.job.run;
  if (folder.run_files().empty()) fail<InvalidArgument>("{} holds no run", run);
  const Ended ended = look_at(folder);
  if (flags.json) {
    nlohmann::json line{{"state", ended.state}, {"reason", ended.reason}, {"result", ended.result}};
    line["checkpoint"] = ended.checkpoint ? nlohmann::json(*ended.checkpoint) : nlohmann::json();
    fmt::print("{}\n", line.dump());
  } else {
    print(ended, run);
  }
  return 0;
}

void show(const cluster::JobStatus& status, bool json) {
  if (json) {
    fmt::print("{}\n", nlohmann::json(status).dump());
  } else {
    print(status);
  }
}

int show_status(const StatusFlags& flags) {
  if (flags.job.run.empty()) {
    show(find_job(flags.job)->status(), flags.json);
    return 0;
  }
  const auto folder = observe::RunFolder::open(flags.job.run);
  std::optional<cluster::JobStatus> status;
  try {
    status = find_job(flags.job)->status();
  } catch (const Error&) {
    if (!folder.held()) return show_ended(folder, flags);
    fail<PeerLost>("the launcher of {} lives, but no master answers just now: a new one is started in a moment",
                   flags.job.run);
  }
  show(*status, flags.json);
  if (const std::string link = launch::page_link(folder); !flags.json && !link.empty()) fmt::print("page: {}\n", link);
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("status", "how a run goes, and who works on it; of one that has ended, its result");
  auto flags = std::make_shared<StatusFlags>();
  declare_job(*command, flags->job);
  command->add_flag("--json", flags->json, "all that is known, as one line of JSON");
  command->footer(
      "Example: trireme status runs/first\n"
      "Placed by hand: trireme status --master 127.0.0.1:4800 --secret-file secret");
  command->callback([flags, &action] { action = [flags] { return show_status(*flags); }; });
}

}  // namespace trireme::cli
