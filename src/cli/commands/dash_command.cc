#include <poll.h>

#include <map>
#include <memory>
#include <optional>

#include "trireme/version.h"

#include "base/error.h"
#include "base/random.h"
#include "cli/commands/commands.h"
#include "cli/start/page_address.h"
#include "cli/start/run_page.h"
#include "launch/job/running_job.h"
#include "launch/signal_watcher.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

struct DashFlags {
  std::string runs = "runs";
  std::string listen = "127.0.0.1:0";
  std::string certificate = {};
};

/// Runs that go on, each asked over a connection of its own. Used by the server's thread only.
class RunningJobs {
 public:
  /// Returns nullopt if the run does not go on, or its master does not answer now.
  std::optional<cluster::JobStatus> status(const std::filesystem::path& run) {
    if (!observe::RunFolder::open(run).held()) {
      jobs_.erase(run);
      return std::nullopt;
    }
    try {
      return job(run).status();
    } catch (const Error&) {
      jobs_.erase(run);  // it has ended, or has another master by now
      return std::nullopt;
    }
  }

  void act(const std::filesystem::path& run, const dash::RunAction& action) {
    if (action.kind == dash::RunAction::Kind::kStop) return job(run).stop("asked by the page");
    if (action.kind == dash::RunAction::Kind::kCheckpoint) return job(run).checkpoint("asked by the page");
    job(run).scale(action.scale);
  }

  std::uint64_t record(const std::filesystem::path& run, Step steps) { return job(run).record(steps); }

  cluster::CollectedSpans recorded(const std::filesystem::path& run, std::uint64_t request) {
    return job(run).recorded(request);
  }

 private:
  launch::RunningJob& job(const std::filesystem::path& run) {
    auto& known = jobs_[run];
    if (!known) known = std::make_unique<launch::RunningJob>(run);
    return *known;
  }

  std::map<std::filesystem::path, std::unique_ptr<launch::RunningJob>> jobs_;
};

int serve_dash(const DashFlags& flags) {
  const PageAddress address = page_address(flags.listen, flags.certificate, /*keep=*/"");
  const std::string token = random_hex(16);
  launch::SignalWatcher signals;
  RunningJobs jobs;
  dash::Dashboard dashboard({.runs = flags.runs,
                             .token = token,
                             .private_page = address.private_page,
                             .version = TRIREME_VERSION,
                             .page = web_files(),
                             .status = [&](const auto& run) { return jobs.status(run); },
                             .act = [&](const auto& run, const auto& action) { jobs.act(run, action); },
                             .record = [&](const auto& run, Step steps) { return jobs.record(run, steps); },
                             .recorded = [&](const auto& run, auto request) { return jobs.recorded(run, request); }});
  const net::HttpServer server(address.server, dashboard);
  if (web_files().empty()) {
    fmt::print(stderr,
               "trireme: this program was built without the page: only its API is served (docs/dashboard.md)\n");
  }
  fmt::print("page: {}#token={}\n", server.url(), token);
  if (!address.fingerprint.empty()) fmt::print("its certificate, SHA-256: {}\n", address.fingerprint);
  fmt::print("Ctrl-C ends it\n");
  std::fflush(stdout);
  while (signals.take() == launch::StopRequest::kNone) {
    pollfd waiting{signals.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, 1000);
  }
  return 0;
}

}  // namespace

void add_dash(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("dash", "serve the page of a run, or of all runs in a folder, from their files");
  auto flags = std::make_shared<DashFlags>();
  command->add_option("runs", flags->runs, "a run's folder, or one that holds many")->capture_default_str();
  command
      ->add_option(
          "--listen", flags->listen,
          "host:port; port 0: any free one; beyond this machine (0.0.0.0:8000) over TLS, and only with the token")
      ->capture_default_str();
  command->add_option("--cert", flags->certificate,
                      "a PEM file with a certificate and its key; unless given, one is made where it is needed");
  command->footer(
      "A run that goes on serves its page itself; train and status print the link.\n"
      "From another machine: ssh -L 8080:127.0.0.1:PORT host, then open http://localhost:8080/#token=…\n"
      "Example: trireme dash runs");
  command->callback([flags, &action] { action = [flags] { return serve_dash(*flags); }; });
}

}  // namespace trireme::cli
