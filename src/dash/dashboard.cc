#include "dash/dashboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/spans.h"
#include "cluster/host_load.h"
#include "dash/aligned_timeline.h"
#include "dash/hang.h"
#include "dash/open_metrics.h"
#include "net/http/metrics_text.h"
#include "observe/append_file.h"
#include "observe/metrics_file.h"
#include "observe/run_folder.h"
#include "observe/thread_stacks.h"

namespace trireme::dash {

using net::HttpReply;
using net::HttpRequest;
using nlohmann::json;

namespace {

constexpr std::size_t kLongestNote = 4096;
constexpr std::size_t kMostPasts = 64;  // runs whose history is kept
constexpr Step kMostRecordedSteps = 1000;

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

HttpReply as_json(const json& value) { return {.body = dump(value) + "\n"}; }

HttpReply plain(unsigned status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text) + "\n"};
}

std::string param(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

/// Puts rows, which are JSON already, into an array.
std::string joined(const std::vector<std::string>& rows) {
  std::string text = "[";
  for (const std::string& row : rows) {
    if (text.size() > 1) text += ',';
    text += row;
  }
  return text + "]";
}

constexpr const char* kNoPage =
    "<!doctype html><meta charset=\"utf-8\"><title>Trireme</title><h1>Trireme</h1><p>The page was left out of this "
    "build, because there was no Node.js to make it with: see docs/dashboard.md. What it would show is at <a "
    "href=\"/api/runs\">/api/runs</a>, <a href=\"/api/run\">/api/run</a> and <a href=\"/metrics\">/metrics</a>.</p>";

}  // namespace

// ---- What a browser is told again and again.

class RunFeed final : public net::HttpFeed {
 public:
  RunFeed(Dashboard& dashboard, std::filesystem::path run)
      : dashboard_(dashboard), run_(std::move(run)), rows_(observe::RunFolder::open(run_).metrics()) {}

  std::string next() override {
    const MetricRows::News news = rows_.next();
    std::string shown = dump(dashboard_.describe(run_));
    const bool changed = shown != shown_;
    if (changed) shown_ = std::move(shown);
    if (!changed && news.rows.empty() && !news.reset && ++quiet_ < kSayHello) return "";
    quiet_ = 0;
    // What changes with every look does not count as a change, and is put behind the rest.
    const std::string run = changed ? fmt::format("{},{}", std::string_view(shown_).substr(0, shown_.size() - 1),
                                                  dump(dashboard_.describe_time(run_)).substr(1))
                                    : "null";
    return fmt::format("{{\"reset\":{},\"rows\":{},\"run\":{}}}", news.reset ? "true" : "false", joined(news.rows),
                       run);
  }

 private:
  static constexpr int kSayHello = 20;  // looks without news, then an empty message: the page knows that we are here

  Dashboard& dashboard_;
  const std::filesystem::path run_;
  MetricRows rows_;
  std::string shown_;
  int quiet_ = 0;
};

Dashboard::Dashboard(DashboardOptions options)
    : options_(std::move(options)), login_(options_.token, options_.private_page), runs_(options_.runs) {
  TRIREME_CHECK(!options_.token.empty(), "a dashboard needs a token");
}

Dashboard::~Dashboard() = default;

double Dashboard::now() const {
  if (options_.now) return options_.now();
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Dashboard::Past& Dashboard::past_of(const std::filesystem::path& run) {
  auto found = pasts_.find(run);
  if (found == pasts_.end()) {
    if (pasts_.size() >= kMostPasts) pasts_.clear();
    found = pasts_.emplace(run, Past{.lines = LogLines(run / "logs", /*events_only=*/true)}).first;
  }
  for (const LogLine& line : found->second.lines.next()) {
    if (const auto event = parse_event(line)) {
      found->second.history.add(*event);
      ++found->second.events;
    }
  }
  return found->second;
}

std::optional<cluster::JobStatus> Dashboard::status_of(const std::filesystem::path& run) const {
  return options_.status ? options_.status(run) : std::nullopt;
}

json Dashboard::describe(const std::filesystem::path& run) {
  json all = summarize_run(run);
  const auto status = status_of(run);
  all["live"] = status.has_value();
  all["status"] = status ? json(*status) : json();
  all["hang"] = status ? to_json(judge_hang(*status)) : json();
  all["history"] = past_of(run).history.to_json();
  all["timeline"] = std::filesystem::exists(observe::RunFolder::open(run).timeline());
  all["phases"] = kPhaseNames;
  return all;
}

json Dashboard::describe_time(const std::filesystem::path& run) {
  return {{"now", now()}, {"goodput", past_of(run).history.goodput(now())}};
}

HttpReply Dashboard::page(const std::string& path) const {
  const std::string wanted = path == "/" ? "/index.html" : path;
  const auto file = std::ranges::find(options_.page, std::string_view(wanted), &WebFile::path);
  if (file != options_.page.end()) {
    HttpReply reply{.type = std::string(file->type), .body = std::string(file->content)};
    // Their names change with their content.
    if (wanted.starts_with("/assets/"))
      reply.headers.emplace_back("Cache-Control", "public, max-age=31536000, immutable");
    return reply;
  }
  if (path == "/") return {.type = "text/html; charset=utf-8", .body = kNoPage};
  return {.status = 404, .body = "{\"error\": \"there is nothing here\"}\n"};
}

HttpReply Dashboard::metrics(bool open_metrics) {
  if (!runs_.single())
    return plain(404, "/metrics is that of one run: trireme dash RUN, or the page of a run that goes on");
  const auto run = runs_.folder("");
  const auto status = status_of(run);
  if (!status) return plain(503, "the run does not go on");
  const RunHistory& history = past_of(run).history;
  Measured measured{.status = *status, .goodput = history.goodput(now()), .version = options_.version};
  if (history.last_checkpoint() > 0) measured.checkpoint_age_s = now() - history.last_checkpoint();
  return net::metrics_reply(to_open_metrics(measured, open_metrics), open_metrics);
}

/// Of many runs, and of one that has ended, there are none.
HttpReply Dashboard::targets() const {
  const auto status = runs_.single() ? status_of(runs_.folder("")) : std::nullopt;
  return {.body = to_targets(status.value_or(cluster::JobStatus{}), cluster::host_load().name)};
}

/// Ready: the job makes steps. Of many runs: they can be read.
HttpReply Dashboard::ready() const {
  if (!runs_.single()) return plain(200, "ready");
  const auto status = status_of(runs_.folder(""));
  if (!status) return plain(503, "the run does not go on");
  if (status->state == cluster::JobPhase::kRunning) return plain(200, "ready: " + status->reason);
  return plain(503, fmt::format("{}: {}", cluster::to_string(status->state), status->reason));
}

HttpReply Dashboard::answer(const HttpRequest& request) {
  const std::string& path = request.path;
  if (path == "/healthz") return plain(200, "ok");
  if (auto first = login_.before(request)) return *first;
  if (path == "/readyz") return ready();
  if (path == "/metrics") return metrics(net::asks_for_open_metrics(request));
  if (path == "/targets") return targets();
  if (!path.starts_with("/api/")) return page(path);
  if (path == "/api/runs") {
    return as_json({{"folder", runs_.name()}, {"single", runs_.single()}, {"runs", runs_.summaries()}});
  }
  const auto run = runs_.folder(param(request, "name"));
  return request.method == "POST" ? act(request, run) : read(request, run);
}

HttpReply Dashboard::read(const HttpRequest& request, const std::filesystem::path& run) {
  const std::string& path = request.path;
  const auto folder = observe::RunFolder::open(run);
  if (path == "/api/run") {
    json all = describe(run);
    all.update(describe_time(run));
    return as_json(all);
  }
  if (path == "/api/rows") return {.body = joined(MetricRows(folder.metrics()).next().rows) + "\n"};
  if (path == "/api/timeline") {
    if (!std::filesystem::exists(folder.timeline())) {
      return {.status = 404, .body = "{\"error\": \"there is no timeline: train with --timeline\"}\n"};
    }
    HttpReply reply{.body = read_file(folder.timeline())};
    reply.headers.emplace_back("Content-Disposition", "attachment; filename=\"timeline.json\"");
    return reply;
  }
  if (path == "/api/recorded") return recorded(request, run);
  if (path == "/api/log") return log(request, folder);
  return {.status = 404, .body = "{\"error\": \"there is no such question\"}\n"};
}

HttpReply Dashboard::log(const HttpRequest& request, const observe::RunFolder& folder) const {
  std::size_t last = 300;
  const std::string wanted = param(request, "last");
  std::from_chars(wanted.data(), wanted.data() + wanted.size(), last);
  json lines = json::array();
  for (const LogLine& line : select_lines(LogLines(folder.logs(), false, kRecentBytes).next(), param(request, "level"),
                                          param(request, "process"), std::min<std::size_t>(last, 5000))) {
    lines.push_back({{"time", line.time}, {"process", line.process}, {"level", line.level}, {"text", line.text}});
  }
  return as_json(lines);
}

HttpReply Dashboard::recorded(const HttpRequest& request, const std::filesystem::path& run) {
  std::uint64_t number = 0;
  const std::string wanted = param(request, "request");
  std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (!options_.recorded) fail<InvalidArgument>("nobody here can be asked for a timeline");
  const AlignedTimeline timeline(options_.recorded(run, number));
  if (!timeline.collected().known) {
    fail<InvalidArgument>(
        "this timeline is gone: another one was recorded since, or another master leads; record it anew");
  }
  if (param(request, "for") != "perfetto") return as_json(timeline.to_page());
  HttpReply reply = as_json(timeline.to_trace());
  reply.headers.emplace_back("Content-Disposition", "attachment; filename=\"timeline.json\"");
  return reply;
}

std::unique_ptr<net::HttpFeed> Dashboard::feed(const HttpRequest& request) {
  if (request.path != "/api/feed") return nullptr;
  login_.check_read(request);
  return std::make_unique<RunFeed>(*this, runs_.folder(param(request, "name")));
}

HttpReply Dashboard::act(const HttpRequest& request, const std::filesystem::path& run) {
  login_.check_action(request);
  const json body = json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
  if (!body.is_object()) fail<InvalidArgument>("the body is not a JSON object");
  if (request.path == "/api/annotate") {
    annotate(run, body.value("text", ""), now());
    return as_json({{"done", "noted"}});
  }
  const auto status = status_of(run);
  if (!status) fail<InvalidArgument>("the run does not go on");
  if (request.path == "/api/stacks") return as_json(collect_stacks(run, *status));
  if (request.path == "/api/record" && options_.record) {
    const Step steps = std::clamp<Step>(body.value("steps", Step{5}), 1, kMostRecordedSteps);
    return as_json({{"request", options_.record(run, steps)}});
  }
  if (!options_.act) fail<InvalidArgument>("nobody here can be asked to do that");
  if (request.path == "/api/checkpoint") {
    options_.act(run, {.kind = RunAction::Kind::kCheckpoint});
    return as_json({{"done", "asked for a checkpoint"}});
  }
  if (request.path == "/api/stop") {
    options_.act(run, {.kind = RunAction::Kind::kStop});
    return as_json({{"done", "it ends after this step"}});
  }
  if (request.path == "/api/scale") {
    const RunAction action{.kind = RunAction::Kind::kScale,
                           .scale = {.workers = body.value("workers", 0u), .servers = body.value("servers", 0u)}};
    if (action.scale.workers == 0 && action.scale.servers == 0) {
      fail<InvalidArgument>("how many? {{\"workers\": 3}}");
    }
    options_.act(run, action);
    return as_json({{"done", "asked for"}});
  }
  return {.status = 404, .body = "{\"error\": \"there is no such action\"}\n"};
}

// ---- Parts that commands share.

bool selected(const LogLine& line, const std::string& level, const std::string& process) {
  static const std::array<std::string, 4> kLevels{"debug", "info", "warning", "error"};
  if (!process.empty() && line.process != process && !line.process.starts_with(process + " ")) return false;
  if (level.empty()) return true;
  if (line.level.empty()) return level == "debug" || level == "info";  // what programs print
  return std::ranges::find(kLevels, line.level) >= std::ranges::find(kLevels, level);
}

std::vector<LogLine> select_lines(std::vector<LogLine> lines, const std::string& level, const std::string& process,
                                  std::size_t last) {
  std::erase_if(lines, [&](const LogLine& line) { return !selected(line, level, process); });
  if (lines.size() > last) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(last));
  return lines;
}

void annotate(const std::filesystem::path& run, const std::string& text, double now) {
  if (text.empty()) fail<InvalidArgument>("an empty note says nothing");
  if (text.size() > kLongestNote) fail<InvalidArgument>("a note has at most {} bytes", kLongestNote);
  observe::MetricsFile(observe::RunFolder::open(run).notes()).append({{"time", now}, {"text", text}});
}

json stacks_of(const std::filesystem::path& folder, const std::string& process, std::int64_t pid,
               const std::string& host) {
  json threads = json::array();
  if (host.empty() || host == cluster::host_load().name) {
    for (const observe::ThreadStack& thread :
         observe::ask_for_stacks(folder, process, static_cast<pid_t>(pid), Deadline::in(std::chrono::seconds(2)))) {
      threads.push_back({{"id", thread.id}, {"name", thread.name}, {"state", thread.state}, {"frames", thread.frames}});
    }
  }
  return {{"process", process}, {"pid", pid}, {"host", host}, {"threads", threads}};
}

json collect_stacks(const std::filesystem::path& run, const cluster::JobStatus& status) {
  const auto folder = observe::RunFolder::open(run).stacks();
  json processes = json::array();
  const auto ask = [&](const char* role, const std::vector<cluster::MemberStatus>& members) {
    for (const auto& member : members) {
      processes.push_back(stacks_of(folder, fmt::format("{} {}", role, member.slot), member.pid, member.load.name));
    }
  };
  ask("worker", status.workers);
  ask("worker", status.others);
  ask("server", status.servers);
  std::error_code ignored;
  std::filesystem::remove(folder, ignored);  // if it is empty
  return processes;
}

}  // namespace trireme::dash
