#include "cluster/resolvers/start_plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace trireme::cluster {
namespace {

/// Above those that systems give out by themselves; the same for all processes of a job.
std::uint16_t port_of_job(const std::string& job) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return static_cast<std::uint16_t>(61440 + hash % 4096);
}

bool leaves_files(Launcher launcher) {
  return launcher == Launcher::kOpenMpi || launcher == Launcher::kMpich || launcher == Launcher::kSlurm;
}

void place_workers(const LauncherPlace& place, const StartWish& wish, StartPlan& plan) {
  const std::uint32_t each =
      !place.per_node ? 1 : std::max(1u, place.workers_per_node > 0 ? place.workers_per_node : wish.workers_per_node);
  plan.workers = place.ranks * each;
  if (!place.rank) {
    plan.claims_slot = place.role != PsLiteRole::kScheduler;
    plan.reasons.push_back(fmt::format("{} workers, ranks in the order in which they come", plan.workers));
    return;
  }
  for (std::uint32_t i = 0; i < each; ++i) plan.own_workers.push_back(*place.rank * each + i);
  plan.reasons.push_back(each == 1 ? fmt::format("worker {} of {}", plan.own_workers.front(), plan.workers)
                                   : fmt::format("workers {} of {}, {} on each node", fmt::join(plan.own_workers, ", "),
                                                 plan.workers, each));
}

void place_servers(const LauncherPlace& place, const StartWish& wish, StartPlan& plan) {
  if (!place.rank) {  // ps-lite's are processes of their own
    plan.servers = place.servers;
    plan.reasons.push_back(fmt::format("{} servers, processes of their own", plan.servers));
    return;
  }
  if (wish.servers_per_host > 0) {
    const bool one_host = place.on_one_host();
    if (!one_host && (!place.node || !place.nodes)) {
      fail<InvalidArgument>(
          "--servers-per-host {}: {} does not say which host is which; give the number of all with --servers",
          wish.servers_per_host, to_string(place.launcher));
    }
    const std::uint32_t node = one_host ? 0 : *place.node;
    plan.servers = (one_host ? 1 : *place.nodes) * wish.servers_per_host;
    const bool first_here = place.per_node || place.local_rank.value_or(0) == 0;
    for (std::uint32_t i = 0; first_here && i < wish.servers_per_host; ++i) {
      plan.own_servers.push_back(node * wish.servers_per_host + i);
    }
    plan.reasons.push_back(
        fmt::format("{} servers, {} with the first process of each host; here: {}", plan.servers, wish.servers_per_host,
                    plan.own_servers.empty() ? "none" : fmt::format("{}", fmt::join(plan.own_servers, ", "))));
    return;
  }
  plan.servers = wish.servers;
  for (std::uint32_t server = 0; server < wish.servers; ++server) {
    if (std::ranges::count(plan.own_workers, server % plan.workers) > 0) plan.own_servers.push_back(server);
  }
  if (plan.servers == 0) {
    plan.reasons.emplace_back("no servers");
  } else {
    plan.reasons.push_back(fmt::format(
        "{} server{}, with the workers of the same rank; here: {}", plan.servers, plan.servers == 1 ? "" : "s",
        plan.own_servers.empty() ? "none" : fmt::format("{}", fmt::join(plan.own_servers, ", "))));
  }
}

/// The file in which the processes of this start meet, and no others.
std::string meeting_name(const LauncherPlace& place, const StartWish& wish, bool on_one_host) {
  std::string name = ".trireme-" + place.job;
  if (place.launcher == Launcher::kMpich && on_one_host) name += "-" + wish.mpi_parent;
  // Each agent of torchrun counts for itself: after a failure on one node the counts differ.
  if (place.launcher != Launcher::kTorchrun) name += fmt::format("-{}", place.restarts);
  return name + ".json";
}

/// How the others find the master, and everybody the secret.
void place_master(const LauncherPlace& place, const StartWish& wish, StartPlan& plan) {
  const bool first = place.rank ? *place.rank == 0 : place.role == PsLiteRole::kScheduler;
  plan.leads = place.rank ? first : place.role == PsLiteRole::kScheduler;
  plan.loopback = place.on_one_host();
  const bool by_address = place.master && place.master->port != 0 && wish.has_secret;
  std::filesystem::path folder = plan.loopback ? wish.private_folder : wish.meeting_folder;
  if (folder.empty() && leaves_files(place.launcher) && !(place.launcher == Launcher::kSlurm && by_address)) {
    folder = wish.working_folder;
  }
  if (!place.names_job && !plan.loopback && wish.meeting_folder.empty()) {
    fail<InvalidArgument>(
        "{} does not say which of its jobs this is (PMI_PORT is not set): name in TRIREME_RENDEZVOUS a folder of this "
        "job alone that all hosts see",
        to_string(place.launcher));
  }
  if (!folder.empty()) {
    plan.master = first ? MasterHost::kHere : MasterHost::kElsewhere;
    plan.meeting_file = folder / meeting_name(place, wish, plan.loopback);
    plan.reasons.push_back(fmt::format("the master is {}; its address and the secret are handed over in {}",
                                       first ? "here" : "with the first process", plan.meeting_file.string()));
    return;
  }
  if (!wish.has_secret) {
    fail<InvalidArgument>(
        "{} hands out no secret, and without one nobody listens beyond this host. Put the same one on every host in a "
        "file of mode 0600 (openssl rand -hex 32 makes one) and name it in TRIREME_SECRET_FILE; or name in "
        "TRIREME_RENDEZVOUS a folder that all hosts see: the first process leaves one there",
        to_string(place.launcher));
  }
  if (!place.master) {
    fail<InvalidArgument>(
        "{} does not say where the first process is: name in TRIREME_RENDEZVOUS a folder that all hosts see",
        to_string(place.launcher));
  }
  plan.master_at = *place.master;
  if (!place.port_is_ours || plan.master_at.port == 0) plan.master_at.port = port_of_job(place.job);
  // The address is that of the first process itself, or only of a host where another one may be.
  const bool names_first = !place.rank || place.launcher == Launcher::kIndexedJob;
  const bool may_host = names_first ? first : place.local_rank.value_or(0) == 0;
  plan.master = !may_host ? MasterHost::kElsewhere : names_first ? MasterHost::kHere : MasterHost::kWhoCanBind;
  plan.reasons.push_back(fmt::format("the master is at {}: {}", plan.master_at.text(),
                                     plan.master == MasterHost::kHere ? "here"
                                     : plan.master == MasterHost::kElsewhere
                                         ? "elsewhere"
                                         : "here, if that is an address of this host"));
}

}  // namespace

StartPlan plan_start(const LauncherPlace& place, const StartWish& wish) {
  StartPlan plan;
  place_workers(place, wish, plan);
  place_servers(place, wish, plan);
  place_master(place, wish, plan);
  return plan;
}

}  // namespace trireme::cluster
