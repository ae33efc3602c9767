#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cluster/environment.h"
#include "cluster/master_finder.h"
#include "launch/signal_watcher.h"
#include "master/master.h"
#include "store/store.h"

namespace trireme::cli {
namespace {

struct MasterFlags {
  std::uint32_t workers = 1;
  std::uint32_t min_workers = 1;
  std::uint32_t min_start = 0;
  std::uint32_t servers = 1;
  std::uint32_t replicas = 0;
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::string announce;
  std::string secret_file;
  std::string store;
  bool standby = false;
  double hang_after = 3;
  double gather_within = 120;
  double wait_for_workers = 600;
  double plan_within = 0;
  std::uint64_t max_views = 0;
  bool allow_plain = false;
};

std::chrono::milliseconds from_seconds(double value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

/// The store and the right to write to it; both empty without --store.
struct Leading {
  std::unique_ptr<store::Store> store;
  std::shared_ptr<store::Leadership> leadership;

  master::MasterLogEntry log_entry() const {
    if (!leadership) return {};
    return {.saved = store->get(cluster::kJobKey).value_or(""),
            .save =
                [held = leadership](const std::string& job) {
                  // All members wait while this is saved, so do not try a store that is known to be unreachable.
                  if (!held->leading() && !held->over()) fail<IoError>("the store is out of reach");
                  held->commit({{cluster::kJobKey, job}});
                },
            .leading = [held = leadership] { return held->leading(); }};
  }
};

Leading take_lead(const MasterFlags& flags, launch::SignalWatcher& signals) {
  if (flags.store.empty()) return {};
  Leading lead{.store = store::open_store({.location = flags.store}), .leadership = nullptr};
  const store::Candidate self{.name = fmt::format("pid {}", ::getpid()), .value = flags.advertise};
  if (flags.standby) log_info("standing_by", "stands by", {{"store", flags.store}});
  bool troubled = false;
  for (const Deadline deadline = Deadline::in(10s);;) {
    try {
      lead.leadership = lead.store->campaign({.candidate = self, .deadline = Deadline::in(500ms)});
      if (std::exchange(troubled, false)) log_info("store_reachable", "the store can be reached again");
    } catch (const Error& problem) {
      if (!flags.standby && deadline.passed()) throw;
      if (!std::exchange(troubled, true)) {
        log_warn("store_unreachable", "the store cannot be reached; will try again", {{"reason", problem.what()}});
      }
    }
    if (lead.leadership) break;
    if (signals.take() != launch::StopRequest::kNone) return lead;
    if (flags.standby || !deadline.passed()) continue;
    const auto leader = lead.store->leader();
    fail<InvalidArgument>("another master leads ({}); use --standby to wait until it is gone",
                          leader ? leader->name : "unknown");
  }
  log_info("leading", "leads the job", {{"term", lead.leadership->term()}});
  return lead;
}

int run_master(const MasterFlags& flags) {
  set_up_logging({.role = "master"});
  const std::string secret = cluster::read_secret([&](const char* name) -> const char* {
    const bool file = std::string_view(name) == "TRIREME_SECRET_FILE" && !flags.secret_file.empty();
    return file ? flags.secret_file.c_str() : std::getenv(name);
  });
  if (secret.empty()) fail<InvalidArgument>("a master needs the job's secret: give --secret-file, or TRIREME_SECRET");
  launch::SignalWatcher signals;
  const Leading lead = take_lead(flags, signals);
  if (!flags.store.empty() && !lead.leadership) return 0;  // asked to end while standing by
  const net::Address listen = net::parse_address(flags.listen);
  master::Master master({.service = {.listener = {.name = "master",
                                                  .host = listen.host,
                                                  .advertise = flags.advertise,
                                                  .port = listen.port,
                                                  .secret = secret,
                                                  .allow_plain = flags.allow_plain}},
                         .shape = {.workers = flags.workers,
                                   .min_workers = flags.min_workers,
                                   .min_start = flags.min_start,
                                   .servers = flags.servers,
                                   .replicas = flags.replicas},
                         .hang_after = from_seconds(flags.hang_after),
                         .gather_within = from_seconds(flags.gather_within),
                         .wait_for_members = from_seconds(flags.wait_for_workers),
                         .plan_within = from_seconds(flags.plan_within),
                         .log_entry = lead.log_entry(),
                         .max_views = flags.max_views});
  log_info("listening", "listens", {{"address", master.address().text()}});
  if (lead.leadership) {
    lead.leadership->commit({{cluster::kAddressKey, nlohmann::json(master.address()).dump()}});
  }
  if (!flags.announce.empty()) {
    write_file_atomically(flags.announce, as_bytes(nlohmann::json(master.address()).dump() + "\n"));
  }
  std::optional<Deadline> linger;  // so that members can still ask how the job ended
  while (!linger || !linger->passed()) {
    pollfd waiting{signals.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, 100);
    if (signals.take() != launch::StopRequest::kNone) break;
    if (master.lost_leadership() || (lead.leadership && lead.leadership->over())) {
      log_error("leadership_lost", "stops: another master leads");
      return 1;
    }
    if (master.over() && !linger) linger.emplace(Deadline::in(5s));
  }
  const cluster::JobStatus status = master.status();
  log_info("master_stopped", "stops", {{"state", cluster::to_string(status.state)}, {"reason", status.reason}});
  return status.state == cluster::JobPhase::kFailed ? 1 : 0;
}

}  // namespace

void add_master(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("master", "run the master of a job, if you place processes yourself");
  auto flags = std::make_shared<MasterFlags>();
  command->add_option("--workers", flags->workers, "number of workers")->capture_default_str();
  command->add_option("--min-workers", flags->min_workers, "the job waits while there are fewer")
      ->capture_default_str();
  command
      ->add_option("--min-start", flags->min_start,
                   "begin with at least this many when --gather-within is over; 0: only with all")
      ->capture_default_str();
  command->add_option("--servers", flags->servers, "number of servers")->capture_default_str();
  command->add_option("--replicas", flags->replicas, "replicas of the parameters on other servers: 0 or 1")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  command->add_option("--listen", flags->listen, "host:port; port 0: any free one")->capture_default_str();
  command->add_option("--advertise", flags->advertise, "host name for others to connect to, when listening on 0.0.0.0");
  command->add_option("--announce", flags->announce, "file to write the address to, as JSON");
  command->add_option("--secret-file", flags->secret_file, "file with the job's secret (or TRIREME_SECRET)");
  command->add_option("--store", flags->store,
                      "where to keep what must outlive this master: sqlite:/folder/job.db, or etcd://host:2379,… for "
                      "several masters");
  command->add_flag("--standby", flags->standby, "wait until the leading master is gone, then take over");
  command->add_option("--hang-after", flags->hang_after, "seconds of silence after which a member is given up")
      ->capture_default_str();
  command->add_option("--gather-within", flags->gather_within, "seconds to wait for all members")
      ->capture_default_str();
  command
      ->add_option("--wait-for-workers", flags->wait_for_workers,
                   "seconds to wait for more members when too few are left")
      ->capture_default_str();
  command
      ->add_option("--plan-within", flags->plan_within,
                   "seconds after the start during which a death does not end a job whose workers have not yet said "
                   "that they are elastic; 0: it ends the job")
      ->capture_default_str();
  command->add_option("--max-views", flags->max_views, "give up after this many views; 0: never")
      ->capture_default_str();
  command->add_flag("--allow-plain", flags->allow_plain, "accept other hosts without TLS: on a trusted network only");
  command->callback([flags, &action] { action = [flags] { return run_master(*flags); }; });
}

}  // namespace trireme::cli
