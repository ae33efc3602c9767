#include "cli/start/foreign_start.h"

#include <cstdio>

#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/flags/declare_flag.h"

namespace trireme::cli {
namespace {

constexpr auto kFirstListensIn = 300s;  // it reads its data first

cluster::StartWish wish_of(const TrainFlags& flags) {
  cluster::StartWish wish = cluster::read_start_wish(cluster::own_variables());
  wish.servers = uses_servers(flags) ? flags.servers : 0;
  wish.servers_per_host = uses_servers(flags) ? flags.servers_per_host : 0;
  return wish;
}

/// TF_CONFIG says everything: who is what, and where.
cluster::StartPlan plan_of(const cluster::JobEnvironment& place) {
  cluster::StartPlan plan{.workers = place.workers, .servers = place.servers};
  (place.role == cluster::Role::kWorker ? plan.own_workers : plan.own_servers) = {place.rank};
  plan.master = place.hosts_master ? cluster::MasterHost::kHere : cluster::MasterHost::kElsewhere;
  plan.leads = place.hosts_master;
  plan.master_at = place.master;
  plan.reasons = {
      fmt::format("{} {}, at {}", to_string(place.role), place.rank, place.listen.text()),
      fmt::format("the master is at {}: {}", place.master.text(), place.hosts_master ? "here" : "elsewhere")};
  return plan;
}

}  // namespace

void check_backend(const TrainFlags& flags, const std::optional<ForeignStart>& start) {
  if (flags.backend != "mpi") return;
  const bool by_mpi =
      start && (start->launcher == cluster::Launcher::kOpenMpi || start->launcher == cluster::Launcher::kMpich ||
                start->launcher == cluster::Launcher::kSlurm);
  if (!by_mpi) {
    fail<InvalidArgument>("--backend mpi: MPI has to start the processes: mpirun -np 4 trireme train --backend mpi …");
  }
  if (uses_servers(flags)) {
    fail<InvalidArgument>("--backend mpi: --strategy {} sends its gradients to servers; use allreduce or local-sgd",
                          flags.strategy);
  }
}

std::optional<ForeignStart> find_foreign_start(const TrainFlags& flags) {
  const cluster::Resolution resolution = cluster::resolve(cluster::own_variables());
  if (!resolution.launcher || *resolution.launcher == cluster::Launcher::kTrireme) return std::nullopt;
  ForeignStart start{.launcher = *resolution.launcher, .place = resolution.place};
  if (resolution.place) {
    start.plan = cluster::plan_start(*resolution.place, wish_of(flags));
  } else {
    start.tf_config = cluster::read_environment();
    start.plan = plan_of(*start.tf_config);
  }
  return start;
}

void adopt(const ForeignStart& start, CLI::App& command, TrainFlags& flags) {
  const std::string workers = std::to_string(start.plan.workers);
  if (command.get_option("--workers")->count() > 0 && flags.worker_range != workers) {
    fail<InvalidArgument>("--workers {}: {} started {} processes that are workers; leave the flag out",
                          flags.worker_range, to_string(start.launcher), workers);
  }
  set_unless_given(command, "--workers", flags.worker_range, workers);
  const bool fixed = start.tf_config || (start.place && !start.place->rank) || flags.servers_per_host > 0;
  if (fixed && uses_servers(flags)) {
    if (command.get_option("--servers")->count() > 0 && flags.servers != start.plan.servers) {
      fail<InvalidArgument>("--servers {}: {} has {}; leave the flag out", flags.servers,
                            flags.servers_per_host > 0 ? "--servers-per-host" : to_string(start.launcher),
                            start.plan.servers);
    }
    set_unless_given(command, "--servers", flags.servers, start.plan.servers);
    flags.servers = start.plan.servers;
  }
  if (start.place && start.place->threads > 0 && command.get_option("--threads")->count() == 0) {
    flags.threads = static_cast<int>(start.place->threads);
  }
}

std::string describe(const ForeignStart& start) {
  return fmt::format("started by {}: {}", to_string(start.launcher), fmt::join(start.plan.reasons, "; "));
}

cluster::LaunchedPlace take_part_of(const ForeignStart& start, const TrainFlags& flags) {
  if (start.place) {
    return cluster::take_launched_place(*start.place, wish_of(flags), Deadline::in(kFirstListensIn));
  }
  cluster::LaunchedPlace place{.launcher = {.launcher = cluster::Launcher::kTfConfig},
                               .plan = start.plan,
                               .hosts_master = start.tf_config->hosts_master,
                               .meeting = {.master = start.plan.master_at, .secret = start.tf_config->secret}};
  if (place.hosts_master) {
    place.listen = start.plan.master_at;
  } else {
    cluster::await_launched_master(place, Deadline::in(kFirstListensIn));
  }
  return place;
}

launch::JobPart to_part(const cluster::LaunchedPlace& place, const std::filesystem::path& run_folder) {
  launch::JobPart part{.workers = place.plan.own_workers,
                       .servers = place.plan.own_servers,
                       .has_master = place.hosts_master,
                       .master = place.meeting.master,
                       .listen = place.listen,
                       .secret = place.meeting.secret,
                       .leads = place.plan.leads};
  if (!place.hosts_master) return part;
  const std::string folder = place.plan.leads ? std::filesystem::absolute(run_folder).string() : "";
  part.on_listening = [&place, folder](const net::Address& master) { cluster::announce(place, master, folder); };
  part.on_begun = [&place] { cluster::withdraw(place); };
  return part;
}

observe::RunFolder folder_beside(const cluster::LaunchedPlace& place, const TrainFlags& flags) {
  for (const std::string& path : {place.meeting.run_folder, flags.out}) {
    if (!path.empty() && std::filesystem::is_directory(path)) return observe::RunFolder::open(path);
  }
  const std::string path = !flags.out.empty()                  ? flags.out
                           : !place.meeting.run_folder.empty() ? place.meeting.run_folder
                                                               : "";
  const std::string who = place.plan.own_workers.empty() ? fmt::format("{}", fmt::join(place.plan.own_servers, "-"))
                                                         : fmt::format("{}", place.plan.own_workers.front());
  return observe::RunFolder::create({.path = path, .model = "part-" + who, .overwrite = true});
}

int run_beside(launch::JobSpec job, const ForeignStart& start, const TrainFlags& flags) {
  const cluster::LaunchedPlace place = take_part_of(start, flags);
  const observe::RunFolder folder = folder_beside(place, flags);
  job.part = to_part(place, folder.path());
  job.quiet = true;
  job.echo_chief = false;
  const launch::JobOutcome outcome = launch::run_job(job, folder);
  cluster::withdraw(place);
  if (!outcome.failure.empty()) {
    fmt::print(stderr, "trireme: {}\nlogs: {}\n", outcome.failure, folder.logs().string());
  }
  return outcome.status;
}

}  // namespace trireme::cli
