#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/flags/log_level.h"
#include "cli/flags/numbers.h"
#include "cluster/environment.h"
#include "cluster/master_finder.h"
#include "cluster/member_metrics.h"
#include "cluster/membership.h"
#include "cluster/own_host.h"
#include "launch/signal_watcher.h"
#include "observe/run_folder.h"
#include "observe/span_ring.h"
#include "observe/thread_stacks.h"
#include "observe/timeline.h"
#include "ps/server.h"

namespace trireme::cli {
namespace {

constexpr auto kMasterNamedIn = 30s;

struct ServeFlags {
  std::string master;
  std::string store;
  std::string listen;
  std::string advertise;
  std::optional<std::uint32_t> rank;
  int threads = -1;
  std::string run_dir;
  std::string secret_file;
  bool allow_plain = false;
  std::string metrics;
  std::string log_level;
};

/// Returns the place from the environment; flags that are given override it.
cluster::JobEnvironment find_place(const ServeFlags& flags) {
  auto place = cluster::read_environment().value_or(cluster::JobEnvironment{.role = cluster::Role::kServer});
  if (place.role != cluster::Role::kServer) {
    fail<InvalidArgument>(
        "TF_CONFIG or TRIREME_ROLE says that this process is worker {}, but 'trireme serve' is a server: start the "
        "worker's program here, or give this process the place of a server ('ps')",
        place.rank);
  }
  if (!flags.master.empty()) place.master = net::parse_address(flags.master);
  if (!flags.store.empty()) place.store = flags.store;
  if (!flags.listen.empty()) place.listen = net::parse_address(flags.listen);
  if (flags.rank) place.rank = *flags.rank;
  if (!flags.run_dir.empty()) place.run_folder = flags.run_dir;
  if (!flags.metrics.empty()) {
    cluster::parse_metrics_address(flags.metrics);
    place.metrics = flags.metrics;
  }
  if (!flags.secret_file.empty()) {
    place.secret = cluster::read_secret([&](const char* name) -> const char* {
      return std::string_view(name) == "TRIREME_SECRET_FILE" ? flags.secret_file.c_str() : nullptr;
    });
  }
  if (place.secret.empty()) {  // placed by flags alone
    place.secret = cluster::read_secret([](const char* name) -> const char* { return std::getenv(name); });
  }
  if (place.master.port == 0 && place.store.empty()) {
    fail<InvalidArgument>("where is the master? give --master host:port, or the --store where it can be found");
  }
  if (place.secret.empty()) {
    fail<InvalidArgument>("a server needs the job's secret: give --secret-file, or set TRIREME_SECRET");
  }
  return place;
}

/// Returns where its parts of checkpoints go; empty if it was not told, or the folder does not exist on this machine:
/// then the chief writes them alone.
std::filesystem::path find_checkpoints(const cluster::JobEnvironment& place) {
  if (place.run_folder.empty()) return {};
  try {
    return observe::RunFolder::open(place.run_folder).checkpoints();
  } catch (const InvalidArgument& problem) {
    log_warn("checkpoints_disabled", "writes no checkpoints", {{"reason", problem.what()}});
    return {};
  }
}

/// Returns where it records what it does when; null if nobody wants that, or it was not told where.
std::shared_ptr<observe::Timeline> open_timeline(const cluster::JobEnvironment& place) {
  if (!place.timeline || place.run_folder.empty()) return nullptr;
  return std::make_shared<observe::Timeline>(observe::RunFolder::open(place.run_folder),
                                             fmt::format("server {}", place.rank), ::getpid());
}

ps::ServerOptions server_options(const ServeFlags& flags, const cluster::JobEnvironment& place, SpanRecorder& spans) {
  const cluster::OwnHost own =
      cluster::find_own_host(place, cluster::make_master_finder(place.store), Deadline::in(kMasterNamedIn));
  return {
      .service = {.listener = {.name = "server",
                               .host = own.listen,
                               .advertise = flags.advertise.empty() ? own.advertise : flags.advertise,
                               .port = place.listen.port,
                               .secret = place.secret,
                               .allow_plain = flags.allow_plain || place.transport == net::Transport::kTcp,
                               .bits_per_second = place.bits_per_second},
                  .threads = ps::default_service_threads()},
      .rank = place.rank,
      .compute_threads = flags.threads < 0 ? ps::default_compute_threads() : static_cast<std::size_t>(flags.threads),
      .transport = place.transport,
      .checkpoints = find_checkpoints(place),
      .spans = &spans};
}

/// How a server's membership in the job ended.
struct Ending {
  bool expelled = false;         ///< it was cut off or stopped for too long, but may join again
  std::string failure = {};      ///< of the job
  cluster::MemberId member = 0;  ///< that it was
};

/// Takes part until the job is over, the server is no longer needed, or it is asked to end. Before it was `former`.
Ending take_part(ps::Server& server, const cluster::JobEnvironment& place, const observe::SpanRing& spans,
                 observe::Timeline* timeline, cluster::MemberId former) {
  net::EventLoop loop("server-net");
  std::promise<Ending> ended;
  std::once_flag once;
  const auto end = [&](Ending ending) { std::call_once(once, [&] { ended.set_value(std::move(ending)); }); };
  cluster::Membership member(
      loop,
      {.role = cluster::Role::kServer,
       .slot = place.rank,
       .master = place.master,
       .find_master = cluster::make_master_finder(place.store),
       .own_address = server.address(),
       .member = former,
       .secret = place.secret,
       .transport = place.transport,
       .without_master_within = cluster::without_master_within(),
       .metrics = place.metrics},
      {.on_abort = [&](const std::string& reason) { end({.failure = reason}); },
       .on_over = [&] { end({}); },
       .clocks =
           [&] {
             const auto clocks = server.clocks();
             return cluster::ClockReport{clocks.finished, clocks.spread_max};
           },
       .shards =
           [&] {
             const ps::ServerStatus status = server.status();
             return cluster::ShardReports{status.view, status.replicas};
           },
       .on_regroup = [&](View, cluster::Regroup, const std::string&) { end({.expelled = true}); }});
  member.tell_spans([&spans](const WantedSteps& wanted) { return spans.last_steps(wanted); });
  launch::SignalWatcher signals;  // until there is a view, signals end the process at once
  if (member.hang_after().count() > 0) server.set_silent_after(member.hang_after() + cluster::kMasterFirst);
  const cluster::ViewInfo view = member.view();
  const cluster::MemberId self = view.servers[member.rank()].id;
  server.enter(view, self);
  auto outcome = ended.get_future();
  while (outcome.wait_for(0s) != std::future_status::ready) {
    pollfd waiting{signals.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, 100);
    if (signals.take() != launch::StopRequest::kNone) {
      log_info("signal_received", "stops because of a signal");
      return {};
    }
  }
  Ending ending = outcome.get();
  ending.member = self;
  if (ending.expelled || !ending.failure.empty()) return ending;
  if (timeline != nullptr) timeline->flush();  // once it has left, nobody waits for it
  try {
    member.leave();
  } catch (const Error& problem) {  // the master may be gone first: the job is over anyway
    log_info("master_gone", "the master was gone before this server could leave", {{"reason", problem.what()}});
  }
  return ending;
}

int serve(const ServeFlags& flags) {
  const auto place = find_place(flags);
  set_up_logging({.role = fmt::format("server {}", place.rank), .level = chosen_log_level(flags.log_level)});
  const auto timeline = open_timeline(place);
  observe::SpanRing spans(timeline);
  if (!place.run_folder.empty()) {
    observe::allow_stack_dumps(std::filesystem::path(place.run_folder) / "stacks",
                               fmt::format("server {}", place.rank));
  }
  ps::Server server(server_options(flags, place, spans));
  log_info("listening", "listens", {{"address", server.address().text()}});
  for (cluster::MemberId former = 0;;) {
    const Ending ending = take_part(server, place, spans, timeline.get(), former);
    if (ending.expelled) {
      log_warn("server_rejoining", "is no longer a member: joins again, and keeps its shards until a view places them");
      former = ending.member;
      continue;
    }
    if (ending.failure.empty()) {
      log_info("server_released", "stops: it is no longer needed");
      return 0;
    }
    log_info("job_failed", "stops: the job failed", {{"reason", ending.failure}});
    return 1;
  }
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("serve", "run one parameter server of a job, if you place processes yourself");
  auto flags = std::make_shared<ServeFlags>();
  command->add_option("--master", flags->master, "host:port of the master");
  command->add_option("--store", flags->store, "where the master is found: sqlite:/folder/job.db, etcd://host:2379");
  add_number(*command, "--rank", flags->rank, "which server this is, from 0")->default_str("0");
  command->add_option("--listen", flags->listen,
                      "host:port to listen on; unless given, where the way to the master begins, and any free port");
  command->add_option("--advertise", flags->advertise,
                      "host name for workers to connect to, when listening on 0.0.0.0");
  add_number(*command, "--threads", flags->threads, "for large requests; -1: chosen by the number of cores",
             {.least = -1})
      ->capture_default_str();
  command->add_option("--run-dir", flags->run_dir,
                      "the run's folder, as the workers see it: the server then writes its part of checkpoints itself "
                      "(or TRIREME_RUN_DIR)");
  command->add_option("--secret-file", flags->secret_file, "file with the job's secret (or TRIREME_SECRET)");
  command->add_flag("--allow-plain", flags->allow_plain, "accept other hosts without TLS: on a trusted network only");
  command->add_option("--metrics", flags->metrics,
                      "serve this process's own /metrics to this machine, on the first free port from this one on; "
                      "0: any (or TRIREME_METRICS)");
  command->add_option(kLogLevelFlag, flags->log_level, kLogLevelHelp);
  command->callback([flags, &action] { action = [flags] { return serve(*flags); }; });
}

}  // namespace trireme::cli
