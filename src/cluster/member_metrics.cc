#include "cluster/member_metrics.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "trireme/version.h"

#include "base/error.h"
#include "base/spans.h"
#include "net/http/metrics_text.h"

namespace trireme::cluster {
namespace {

constexpr std::uint16_t kPortsTried = 1000;
constexpr double kMasterSilentAfter = 10;  // seconds

/// 0 if the kernel does not tell.
std::size_t open_descriptors() {
  std::error_code problem;
  const std::filesystem::directory_iterator all("/proc/self/fd", problem);
  return problem ? 0 : static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const double kStarted = unix_seconds();

/// Under the names that Prometheus' own libraries give them.
void add_process(net::MetricsText& text, const HostLoad& load) {
  text.family("process_cpu_seconds", "counter", "CPU time of this process.", "seconds");
  text.sample(load.cpu_s);
  text.family("process_resident_memory_bytes", "gauge", "Memory of this process.", "bytes");
  text.sample(static_cast<double>(load.resident));
  text.family("process_open_fds", "gauge", "Descriptors that this process has open.");
  text.sample(static_cast<double>(open_descriptors()));
  text.family("process_start_time_seconds", "gauge", "When this process started, since 1970.", "seconds");
  text.sample(kStarted);
}

void add_worker(net::MetricsText& text, const WorkDone& work, std::uint64_t recent_samples, const Activity& activity) {
  text.family("trireme_step", "gauge", "Steps that this worker has finished.");
  text.sample(static_cast<double>(work.clock));
  text.family("trireme_samples", "counter", "Samples that this process computed.");
  text.sample(static_cast<double>(work.samples));
  text.family("trireme_lanes", "counter", "Lanes that this process computed.");
  text.sample(static_cast<double>(work.lanes));
  text.family("trireme_busy_seconds", "counter", "Time in which this process computed.", "seconds");
  text.sample(work.busy_s);
  if (recent_samples > 0) {
    text.family("trireme_loss", "gauge", "Of this process's last samples.");
    text.sample(work.loss_sum / static_cast<double>(recent_samples));
  }
  text.family("trireme_phase_seconds", "counter", "Time of the training thread by what it did.", "seconds");
  for (std::size_t phase = 0; phase < std::min(work.phases.size(), kPhaseNames.size()); ++phase) {
    text.sample(work.phases[phase], {{"phase", kPhaseNames[phase]}});
  }
  if (activity.what.empty()) return;
  text.family("trireme_activity_seconds", "gauge", "How long it has been doing what it does.", "seconds");
  text.sample(activity.for_s, {{"what", activity.what}});
}

void add_server(net::MetricsText& text, const Heartbeat& last) {
  const auto& clocks = last.clocks.clocks;
  text.family("trireme_clock_spread_steps", "gauge", "By how many steps the fastest worker is ahead of the slowest.",
              "steps");
  if (!clocks.empty()) {
    const auto [least, most] = std::ranges::minmax_element(clocks);
    text.sample(static_cast<double>(*most - *least));
  }
  text.family("trireme_replicas", "gauge", "Copies of this server's shards on other servers.");
  const auto in_sync = std::ranges::count_if(last.shards.reports, &ShardReport::in_sync);
  text.sample(static_cast<double>(in_sync), {{"state", "in_sync"}});
  text.sample(static_cast<double>(std::ssize(last.shards.reports) - in_sync), {{"state", "filling"}});
}

}  // namespace

net::Address parse_metrics_address(const std::string& text) {
  std::uint16_t port = 0;
  const auto [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem == std::errc() && stopped == text.data() + text.size()) return {.host = "127.0.0.1", .port = port};
  const net::Address address = net::parse_address(text);
  if (address.host != "localhost" && !net::is_loopback(address.host)) {
    fail<InvalidArgument>(
        "'{}': processes serve their /metrics to this machine only: give a port, as in --metrics 9100; for other "
        "machines the run's page has the numbers of all processes, with TLS and a token: --dash {}:8000",
        text, address.host);
  }
  return address;
}

MemberMetrics::MemberMetrics(const net::Address& listen, Role role, std::uint32_t slot)
    : host_(listen.host), role_(role), slot_(slot) {
  net::HttpHandler& handler = *this;
  for (std::uint16_t tried = 0; server_ == nullptr; ++tried) {
    const int port = listen.port + (listen.port == 0 ? 0 : tried);
    try {
      server_ = std::make_unique<net::HttpServer>(
          net::HttpServerOptions{.name = "metrics", .host = listen.host, .port = static_cast<std::uint16_t>(port)},
          handler);
    } catch (const IoError&) {
      if (listen.port == 0 || tried == kPortsTried || port == 65535) throw;
    }
  }
}

MemberMetrics::~MemberMetrics() { server_.reset(); }  // nobody asks any more: the rest may go

std::string MemberMetrics::address() const {
  return net::Address{.host = host_, .port = static_cast<std::uint16_t>(server_->port())}.text();
}

void MemberMetrics::add(const Heartbeat& beat, View view) {
  const MutexLock lock(mutex_);
  view_ = view;
  work_.clock = beat.work.clock;
  work_.samples += beat.work.samples;
  work_.lanes += beat.work.lanes;
  work_.busy_s += beat.work.busy_s;
  work_.phases.resize(std::max(work_.phases.size(), beat.work.phases.size()), 0.0);
  for (std::size_t phase = 0; phase < beat.work.phases.size(); ++phase) work_.phases[phase] += beat.work.phases[phase];
  if (beat.work.samples > 0) {
    work_.loss_sum = beat.work.loss_sum;
    samples_ = beat.work.samples;
  }
  if (beat.load.cores > 0) load_ = beat.load;
  last_ = {.clocks = beat.clocks, .shards = beat.shards, .activity = beat.activity};
}

void MemberMetrics::note_answer() {
  const MutexLock lock(mutex_);
  answered_ = Deadline::Clock::now();
}

std::string MemberMetrics::text(bool open_metrics) const {
  const MutexLock lock(mutex_);
  net::MetricsText text(open_metrics);
  text.family("trireme_build", "info", "Which Trireme this is, and what it does here.");
  text.sample(1, {{"version", TRIREME_VERSION}, {"role", to_string(role_)}, {"slot", std::to_string(slot_)}});
  add_process(text, load_);
  text.family("trireme_view", "gauge", "The number of the membership that this process is in.");
  text.sample(static_cast<double>(view_));
  text.family("trireme_master_silent_seconds", "gauge", "Since the master last answered this process.", "seconds");
  text.sample(std::chrono::duration<double>(Deadline::Clock::now() - answered_).count());
  if (role_ == Role::kWorker) add_worker(text, work_, samples_, last_.activity);
  if (role_ == Role::kServer) add_server(text, last_);
  return text.finish();
}

net::HttpReply MemberMetrics::answer(const net::HttpRequest& request) {
  const auto plain = [](unsigned status, std::string body) {
    return net::HttpReply{.status = status, .type = "text/plain; charset=utf-8", .body = std::move(body) + "\n"};
  };
  if (request.path == "/metrics") {
    const bool open_metrics = net::asks_for_open_metrics(request);
    return net::metrics_reply(text(open_metrics), open_metrics);
  }
  if (request.path == "/healthz") return plain(200, "it answers");  // also without a master: training goes on
  if (request.path == "/readyz") {
    const MutexLock lock(mutex_);
    const double silent = std::chrono::duration<double>(Deadline::Clock::now() - answered_).count();
    if (view_ == 0) return plain(503, "it is in no view yet");
    if (silent > kMasterSilentAfter) return plain(503, fmt::format("the master has not answered for {:.0f} s", silent));
    return plain(200, "ready");
  }
  return plain(404, "there are /metrics, /healthz and /readyz; the page of the run is the master's");
}

std::unique_ptr<net::HttpFeed> MemberMetrics::feed(const net::HttpRequest&) { return nullptr; }

}  // namespace trireme::cluster
