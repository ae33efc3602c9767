#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cluster/protocol.h"
#include "dash/metric_rows.h"
#include "dash/page_login.h"
#include "dash/run_history.h"
#include "dash/run_list.h"
#include "net/http/server.h"
#include "observe/run_folder.h"

namespace trireme::dash {

/// A file of the page, as it was built from web/.
struct WebFile {
  std::string_view path;  ///< "/assets/index.js"
  std::string_view type;  ///< "text/javascript"
  std::string_view content;
};

/// What somebody with the token asks a run to do.
struct RunAction {
  enum class Kind { kStop, kScale, kCheckpoint };
  Kind kind = Kind::kStop;
  cluster::ScaleRequest scale = {};
};

struct DashboardOptions {
  std::filesystem::path runs;  ///< the folder of one run, or of many
  std::string token;           ///< for actions; never empty
  bool private_page = false;   ///< the token is needed to read, too
  std::string version;         ///< of Trireme
  std::span<const WebFile> page = {};

  /// Returns the status of a run that goes on; nullopt if it does not, or its master does not answer.
  std::function<std::optional<cluster::JobStatus>(const std::filesystem::path& run)> status = {};
  /// Does what was asked for. Throws what the master refused.
  std::function<void(const std::filesystem::path& run, const RunAction& action)> act = {};
  /// Ask for the last steps of all processes, and return what they have answered: see master::Master.
  std::function<std::uint64_t(const std::filesystem::path& run, Step steps)> record = {};
  std::function<cluster::CollectedSpans(const std::filesystem::path& run, std::uint64_t request)> recorded = {};
  std::function<double()> now = {};  ///< seconds since 1970; null = the clock
};

/// The page of one run or of many, its API, `/metrics` and the health checks: docs/dashboard.md lists them.
///
///     GET  /  /assets/…                 the page
///     GET  /metrics  /healthz  /readyz  for machines
///     GET  /targets                     where the processes of the run serve their own /metrics
///     GET  /api/runs                    all runs, a summary each
///     GET  /api/run?name=               one run: status, history, flags, hang
///     GET  /api/rows?name=              its rows of metrics
///     GET  /api/log?name=&level=&process=&last=   the last lines of its logs, merged
///     GET  /api/timeline?name=          timeline.json of --timeline, for Perfetto
///     GET  /api/recorded?name=&request=&for=  what was recorded on request: for the page, or "perfetto"
///     WS   /api/feed?name=              what changes
///     POST /api/stop|scale|checkpoint|annotate|stacks|record?name=  with the token
///     POST /api/login                   where reading needs the token: gives the browser a pass
///
/// Reading never changes anything, and all that changes something needs the token.
class Dashboard final : public net::HttpHandler {
 public:
  /// Throws InvalidArgument if there is no such folder.
  explicit Dashboard(DashboardOptions options);
  ~Dashboard() override;

  net::HttpReply answer(const net::HttpRequest& request) override;
  std::unique_ptr<net::HttpFeed> feed(const net::HttpRequest& request) override;

 private:
  friend class RunFeed;

  /// What is known of a run's past, read on as its logs grow.
  struct Past {
    LogLines lines;
    RunHistory history;
    std::uint64_t events = 0;
  };

  double now() const;
  Past& past_of(const std::filesystem::path& run);
  std::optional<cluster::JobStatus> status_of(const std::filesystem::path& run) const;
  net::HttpReply page(const std::string& path) const;
  net::HttpReply metrics(bool open_metrics);
  net::HttpReply targets() const;
  net::HttpReply ready() const;
  nlohmann::json describe(const std::filesystem::path& run);
  nlohmann::json describe_time(const std::filesystem::path& run);  // what changes with the time alone
  net::HttpReply act(const net::HttpRequest& request, const std::filesystem::path& run);
  net::HttpReply read(const net::HttpRequest& request, const std::filesystem::path& run);
  net::HttpReply recorded(const net::HttpRequest& request, const std::filesystem::path& run);
  net::HttpReply log(const net::HttpRequest& request, const observe::RunFolder& folder) const;

  const DashboardOptions options_;
  const PageLogin login_;
  RunList runs_;
  std::map<std::filesystem::path, Past> pasts_;
};

/// Returns the last `last` lines of all logs of a run, in order of time, of at least `level` ("" = all) and of
/// `process`
/// ("worker", "worker 1"; "" = all).
std::vector<LogLine> select_lines(std::vector<LogLine> lines, const std::string& level, const std::string& process,
                                  std::size_t last);

/// Returns whether a line is of at least this level, and of this process or role.
bool selected(const LogLine& line, const std::string& level, const std::string& process);

/// Adds a note of a person to a run. Throws InvalidArgument if it is empty or longer than 4 KiB, IoError.
void annotate(const std::filesystem::path& run, const std::string& text, double now);

/// Returns the stacks of one process of this host: {"process", "pid", "host", "threads": […]}.
nlohmann::json stacks_of(const std::filesystem::path& folder, const std::string& process, std::int64_t pid,
                         const std::string& host = "");

/// Returns the stacks of all members of a run on this host: [{"process", "pid", "threads": […]}].
nlohmann::json collect_stacks(const std::filesystem::path& run, const cluster::JobStatus& status);

}  // namespace trireme::dash
