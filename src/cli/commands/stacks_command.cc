#include <cstdlib>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "dash/dashboard.h"
#include "launch/job/running_job.h"
#include "observe/run_folder.h"
#include "observe/thread_stacks.h"

namespace trireme::cli {
namespace {

struct StacksFlags {
  std::string run;
  bool json = false;
};

/// Who takes part, as the log of a master that does not answer says.
cluster::JobStatus members_by_log(const observe::RunFolder& folder) {
  std::map<std::string, std::int64_t> pids;  // the last process in each place
  dash::LogLines lines(folder.logs(), /*events_only=*/true);
  for (const dash::LogLine& line : lines.next()) {
    const auto event = dash::parse_event(line);
    if (event && event->key == "member_joined")
      pids[event->text("member")] = static_cast<std::int64_t>(event->number("pid"));
  }
  cluster::JobStatus status;
  for (const auto& [member, pid] : pids) {
    const auto space = member.find(' ');
    auto& place = member.starts_with("server") ? status.servers : status.workers;
    place.push_back(
        {.slot = static_cast<std::uint32_t>(std::strtoul(member.c_str() + space, nullptr, 10)), .pid = pid});
  }
  return status;
}

cluster::JobStatus who_takes_part(const observe::RunFolder& folder) {
  try {
    return launch::RunningJob(folder.path()).status();
  } catch (const Error& problem) {
    if (!folder.held()) throw;
    fmt::print(stderr, "trireme: {}; its log says who takes part\n", problem.what());
    return members_by_log(folder);
  }
}

/// The master says who takes part. It may hang itself: it is asked first, by its pid.
int show_stacks(const StacksFlags& flags) {
  const auto folder = observe::RunFolder::open(flags.run);
  nlohmann::json processes = nlohmann::json::array();
  if (std::filesystem::exists(folder.page())) {
    const auto page = nlohmann::json::parse(read_file(folder.page()), nullptr, false);
    if (page.is_object() && page.contains("pid")) {
      processes.push_back(dash::stacks_of(folder.stacks(), "master", page.at("pid").get<std::int64_t>()));
    }
  }
  const cluster::JobStatus status = who_takes_part(folder);
  for (nlohmann::json& process : dash::collect_stacks(folder.path(), status)) processes.push_back(std::move(process));
  if (flags.json) {
    fmt::print("{}\n", processes.dump());
    return 0;
  }
  for (const nlohmann::json& process : processes) {
    fmt::print("{} (pid {}{}{})\n", process.value("process", ""), process.value("pid", std::int64_t{0}),
               process.value("host", "").empty() ? "" : " on ", process.value("host", ""));
    const auto threads = process.at("threads");
    bool answered = false;
    for (const nlohmann::json& thread : threads) {
      const auto frames = thread.at("frames");
      answered = answered || !frames.empty();
      fmt::print("  thread {} {} ({})\n", thread.value("id", std::int64_t{0}), thread.value("name", ""),
                 thread.value("state", ""));
      for (const nlohmann::json& frame : frames) fmt::print("    {}\n", frame.get<std::string>());
    }
    if (threads.empty()) {
      fmt::print("  it is on another host, or has ended: run this command there\n");
    } else if (!answered) {
      fmt::print("  it did not answer: this is what the kernel says of its threads\n");
    }
  }
  return 0;
}

}  // namespace

void add_stacks(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("stacks", "what all threads of all processes of a run are doing: for one that hangs");
  auto flags = std::make_shared<StacksFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  command->add_flag("--json", flags->json, "as one line of JSON");
  command->footer("Example: trireme stacks runs/first");
  command->callback([flags, &action] { action = [flags] { return show_stacks(*flags); }; });
}

}  // namespace trireme::cli
