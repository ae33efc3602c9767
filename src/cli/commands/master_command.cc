#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/flags/declare_flag.h"
#include "cli/flags/log_level.h"
#include "cli/start/run_page.h"
#include "cluster/environment.h"
#include "cluster/master_finder.h"
#include "launch/job/master_flags.h"
#include "launch/signal_watcher.h"
#include "master/master.h"
#include "observe/run_folder.h"
#include "observe/thread_stacks.h"
#include "store/store.h"

namespace trireme::cli {
namespace {

std::chrono::milliseconds from_seconds(double value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

/// The store and the right to write to it; both empty without --store.
struct Leading {
  std::unique_ptr<store::Store> store;
  std::shared_ptr<store::Leadership> leadership;

  master::MasterLogEntry log_entry() const {
    if (!leadership) return {};
    return {.saved = {.job = store->get(cluster::kJobKey).value_or(""),
                      .leases = store->get(cluster::kLeasesKey).value_or("")},
            .save = [held = leadership](const master::SavedText& changes) { save(*held, changes); },
            .leading = [held = leadership] { return held->leading(); }};
  }

  static void save(store::Leadership& held, const master::SavedText& changes) {
    // Some answers wait until this is saved, so do not try a store that is known to be unreachable.
    if (!held.leading() && !held.over()) fail<IoError>("the store is out of reach");
    store::Changes entries;
    if (!changes.job.empty()) entries[cluster::kJobKey] = changes.job;
    if (!changes.leases.empty()) entries[cluster::kLeasesKey] = changes.leases;
    held.commit(entries);
  }
};

Leading take_lead(const launch::MasterFlags& flags, launch::SignalWatcher& signals) {
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

std::string find_secret(const launch::MasterFlags& flags) {
  const std::string secret = cluster::read_secret([&](const char* name) -> const char* {
    const bool file = std::string_view(name) == "TRIREME_SECRET_FILE" && !flags.secret_file.empty();
    return file ? flags.secret_file.c_str() : std::getenv(name);
  });
  if (secret.empty()) fail<InvalidArgument>("a master needs the job's secret: give --secret-file, or TRIREME_SECRET");
  return secret;
}

/// A page that cannot be served costs nobody the training.
std::unique_ptr<RunPage> open_page(const launch::MasterFlags& flags, master::Master& master) {
  if (flags.run_dir.empty()) {
    if (flags.dash != "off")
      fail<InvalidArgument>("--dash needs --run-dir: the page shows what is in the run's folder");
    return nullptr;
  }
  try {
    observe::allow_stack_dumps(observe::RunFolder::open(flags.run_dir).stacks(), "master");
    if (flags.dash == "off") return nullptr;
    auto page = std::make_unique<RunPage>(flags.run_dir, flags.dash, flags.dash_cert, master);
    log_info("page_served", "serves the page of the run", {{"url", page->url()}});
    return page;
  } catch (const std::exception& problem) {
    log_warn("page_not_served", "the page of the run is not served", {{"reason", problem.what()}});
    return nullptr;
  }
}

/// Runs the job as long as this master leads. Returns the exit status; nullopt = it has lost the lead.
std::optional<int> run_job(const launch::MasterFlags& flags, const std::string& secret, const Leading& lead,
                           launch::SignalWatcher& signals) {
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
  const auto page = open_page(flags, master);
  if (!flags.announce.empty()) {
    write_file_atomically(flags.announce, as_bytes(nlohmann::json(master.address()).dump() + "\n"));
  }
  std::optional<Deadline> linger;  // so that members can still ask how the job ended
  bool all_left = false;
  while (!linger || !linger->passed()) {
    pollfd waiting{signals.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, 100);
    if (signals.take() != launch::StopRequest::kNone) break;
    if (master.lost_leadership() || (lead.leadership && lead.leadership->over())) {
      log_warn("leadership_lost", "makes no more decisions: its lease has expired, or another master leads");
      return std::nullopt;
    }
    if (master.over() && !linger) linger.emplace(Deadline::in(5s));
    if (linger && !all_left && master.no_members_left()) {
      all_left = true;
      linger.emplace(Deadline::in(500ms));  // for launchers, which are no members
    }
  }
  const cluster::JobStatus status = master.status();
  log_info("master_stopped", "stops", {{"state", cluster::to_string(status.state)}, {"reason", status.reason}});
  return status.state == cluster::JobPhase::kFailed ? 1 : 0;
}

/// A master that has lost the lead stands for it again, with what is saved by then: after an outage of the store there
/// may be nobody else.
int run_master(const launch::MasterFlags& flags) {
  set_up_logging({.role = "master", .level = chosen_log_level(flags.log_level)});
  const std::string secret = find_secret(flags);
  launch::SignalWatcher signals;
  for (;;) {
    const Leading lead = take_lead(flags, signals);
    if (!flags.store.empty() && !lead.leadership) return 0;  // asked to end while standing by
    if (const auto status = run_job(flags, secret, lead, signals)) return *status;
  }
}

}  // namespace

void add_master(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("master", "run the master of a job, if you place processes yourself");
  auto flags = std::make_shared<launch::MasterFlags>();
  for_each_flag(launch::master_flags(), [&](const auto& flag) { declare_flag(*command, flag, *flags); });
  command->get_option("--replicas")->check(CLI::Range(0, 1));
  command->callback([flags, &action] { action = [flags] { return run_master(*flags); }; });
}

}  // namespace trireme::cli
