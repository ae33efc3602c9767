// What each launcher sets, and what of it can be trusted.

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/resolvers/node_list.h"
#include "cluster/resolvers/resolvers.h"
#include "cluster/resolvers/variable_reader.h"

namespace trireme::cluster {
namespace {

std::uint32_t at_least_one(const std::string& name, std::uint32_t value) {
  if (value == 0) fail<InvalidArgument>("{}=0: at least one process is needed", name);
  return value;
}

/// Of a host address such as "tcp://10.0.0.1:5000;…", as mpirun tells its daemons; empty if there is none.
std::string host_in_uri(const std::string& uri) {
  const auto scheme = uri.find("tcp");
  const auto begin = scheme == std::string::npos ? scheme : uri.find("//", scheme);
  if (begin == std::string::npos) return "";
  const std::string host = uri.substr(begin + 2, uri.find_first_of(":,;", begin + 2) - begin - 2);
  return host;
}

}  // namespace

LauncherAnswer resolve_torchrun(const Variables& variables) {
  const VariableReader read(variables);
  // MASTER_ADDR and MASTER_PORT alone are set by many, for later.
  if (!read.has("RANK") && !read.has("WORLD_SIZE")) return {};
  if (const std::string missing = read.missing({"RANK", "WORLD_SIZE", "MASTER_ADDR"}); !missing.empty()) {
    return {.reason = "not set: " + missing};
  }
  LauncherPlace place{.launcher = Launcher::kTorchrun};
  place.ranks = at_least_one("WORLD_SIZE", read.need_number("WORLD_SIZE"));
  place.rank = read.rank("RANK", "WORLD_SIZE", place.ranks);
  place.local_ranks = read.number("LOCAL_WORLD_SIZE");
  if (place.local_ranks) {
    at_least_one("LOCAL_WORLD_SIZE", *place.local_ranks);
    if (*place.local_ranks > place.ranks) {
      fail<InvalidArgument>("LOCAL_WORLD_SIZE={} is more than WORLD_SIZE={}", *place.local_ranks, place.ranks);
    }
    if (read.has("LOCAL_RANK")) place.local_rank = read.rank("LOCAL_RANK", "LOCAL_WORLD_SIZE", *place.local_ranks);
  } else {
    place.local_rank = read.number("LOCAL_RANK");
  }
  place.node = read.number("GROUP_RANK");
  place.nodes = read.number("GROUP_WORLD_SIZE");
  if (!place.nodes && place.local_ranks && place.ranks % *place.local_ranks == 0) {
    place.nodes = place.ranks / *place.local_ranks;
  }
  place.master = read.address("MASTER_ADDR", "MASTER_PORT");
  place.port_is_ours = false;
  place.restarts = read.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  const std::string run_id = read.text("TORCHELASTIC_RUN_ID");
  place.job = file_word({"torchrun", run_id, place.master->text()});
  if (run_id != "none") place.run_id = run_id;  // torchrun's default, the same for everybody
  return {.place = place, .reason = fmt::format("RANK={} of WORLD_SIZE={}", *place.rank, place.ranks)};
}

LauncherAnswer resolve_open_mpi(const Variables& variables) {
  const VariableReader read(variables);
  if (!read.has("OMPI_COMM_WORLD_RANK") && !read.has("OMPI_COMM_WORLD_SIZE")) return {};
  if (const auto missing = read.missing({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}); !missing.empty()) {
    return {.reason = "not set: " + missing};
  }
  LauncherPlace place{.launcher = Launcher::kOpenMpi};
  place.ranks = at_least_one("OMPI_COMM_WORLD_SIZE", read.need_number("OMPI_COMM_WORLD_SIZE"));
  place.rank = read.rank("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", place.ranks);
  place.local_ranks = read.number("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (place.local_ranks && read.has("OMPI_COMM_WORLD_LOCAL_RANK")) {
    place.local_rank = read.rank("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", *place.local_ranks);
  }
  // OMPI_COMM_WORLD_NODE_RANK is the rank on the node, not the number of the node.
  for (const char* uri : {"OMPI_MCA_orte_hnp_uri", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                          "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"}) {
    if (const std::string host = host_in_uri(read.text(uri)); !host.empty() && !place.master) {
      place.master = net::Address{.host = host};
    }
  }
  place.port_is_ours = false;
  const std::string space = read.text("PMIX_NAMESPACE");
  place.job = file_word({"mpi", space.empty() ? read.text("OMPI_MCA_ess_base_jobid") : space});
  return {.place = place,
          .reason = fmt::format("OMPI_COMM_WORLD_RANK={} of OMPI_COMM_WORLD_SIZE={}", *place.rank, place.ranks)};
}

LauncherAnswer resolve_mpich(const Variables& variables) {
  const VariableReader read(variables);
  if (!read.has("PMI_RANK") && !read.has("PMI_SIZE")) return {};
  if (!read.has("MPI_LOCALRANKID")) {
    return {.reason = "PMI_RANK without MPI_LOCALRANKID is not MPICH's: srun sets it too"};
  }
  if (const auto missing = read.missing({"PMI_RANK", "PMI_SIZE"}); !missing.empty()) {
    return {.reason = "not set: " + missing};
  }
  LauncherPlace place{.launcher = Launcher::kMpich};
  place.ranks = at_least_one("PMI_SIZE", read.need_number("PMI_SIZE"));
  place.rank = read.rank("PMI_RANK", "PMI_SIZE", place.ranks);
  place.local_rank = read.number("MPI_LOCALRANKID");
  place.local_ranks = read.number("MPI_LOCALNRANKS");
  if (place.local_ranks) place.local_rank = read.rank("MPI_LOCALRANKID", "MPI_LOCALNRANKS", *place.local_ranks);
  place.job = file_word({"mpich", read.text("PMI_PORT"), read.text("PMI_ID_SPACE"), read.text("HYDI_CONTROL_FD"),
                         read.text("SLURM_JOB_ID")});
  place.names_job = read.has("PMI_PORT") || read.has("SLURM_JOB_ID");
  return {.place = place, .reason = fmt::format("PMI_RANK={} of PMI_SIZE={}", *place.rank, place.ranks)};
}

LauncherAnswer resolve_slurm(const Variables& variables) {
  const VariableReader read(variables);
  if (!read.has("SLURM_JOB_ID") && !read.has("SLURM_PROCID") && !read.has("SLURM_NTASKS")) return {};
  if (!read.has("SLURM_STEP_ID") || !read.has("SLURM_STEP_NUM_TASKS")) {
    return {.reason =
                "there is no step (SLURM_STEP_ID): in a batch script or a shell every process has SLURM_PROCID=0; "
                "start it with srun"};
  }
  LauncherPlace place{.launcher = Launcher::kSlurm};
  place.ranks = at_least_one("SLURM_STEP_NUM_TASKS", read.need_number("SLURM_STEP_NUM_TASKS"));
  if (place.ranks == 1) return {.reason = "SLURM_STEP_NUM_TASKS=1: the step has one task"};
  place.rank = read.rank("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", place.ranks);
  place.local_rank = read.number("SLURM_LOCALID");
  place.node = read.number("SLURM_NODEID");
  place.nodes = read.number("SLURM_STEP_NUM_NODES");
  // Not SLURM_NTASKS_PER_NODE, which is what was asked for once, for another step perhaps.
  if (const std::string text = read.text("SLURM_STEP_TASKS_PER_NODE"); !text.empty()) {
    const auto tasks = expand_tasks_per_node("SLURM_STEP_TASKS_PER_NODE", text);
    std::uint64_t sum = 0;
    for (const std::uint32_t count : tasks) sum += count;
    if (sum != place.ranks) {
      fail<InvalidArgument>("SLURM_STEP_TASKS_PER_NODE={} are {} tasks, but SLURM_STEP_NUM_TASKS={}", text, sum,
                            place.ranks);
    }
    if (place.node && *place.node < tasks.size()) place.local_ranks = tasks[*place.node];
    if (!place.nodes) place.nodes = static_cast<std::uint32_t>(tasks.size());
  }
  if (place.node && place.nodes) read.rank("SLURM_NODEID", "SLURM_STEP_NUM_NODES", *place.nodes);
  const std::uint32_t job = read.need_number("SLURM_JOB_ID");
  constexpr std::uint32_t kFirstPort = 61440;  // above those that systems give out by themselves
  constexpr std::uint32_t kPorts = 4096;
  if (const std::string list = read.text("SLURM_STEP_NODELIST"); !list.empty()) {
    const auto hosts = expand_node_list("SLURM_STEP_NODELIST", list);
    place.master = net::Address{.host = hosts.front(), .port = static_cast<std::uint16_t>(kFirstPort + job % kPorts)};
    if (place.node && *place.node < hosts.size()) place.host = hosts[*place.node];
  }
  place.restarts = read.number("SLURM_RESTART_COUNT").value_or(0);
  place.threads = read.number("SLURM_CPUS_PER_TASK").value_or(0);
  place.job = file_word({"slurm", read.text("SLURM_JOB_ID"), read.text("SLURM_STEP_ID")});
  return {.place = place,
          .reason = fmt::format("SLURM_PROCID={} of SLURM_STEP_NUM_TASKS={}", *place.rank, place.ranks)};
}

LauncherAnswer resolve_kubeflow(const Variables& variables) {
  const VariableReader read(variables);
  if (!read.has("PET_NNODES") && !read.has("PET_NODE_RANK")) return {};
  if (const auto missing = read.missing({"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"}); !missing.empty()) {
    return {.reason = "not set: " + missing};
  }
  if (const std::string nodes = read.text("PET_NNODES"); nodes.find(':') != std::string::npos) {
    return {.reason = "PET_NNODES=" + nodes + " is a range, which torchrun has to settle: start it with torchrun"};
  }
  LauncherPlace place{.launcher = Launcher::kKubeflow, .per_node = true};
  place.ranks = at_least_one("PET_NNODES", read.need_number("PET_NNODES"));
  place.rank = read.rank("PET_NODE_RANK", "PET_NNODES", place.ranks);
  place.node = *place.rank;
  place.nodes = place.ranks;
  const std::string processes = read.text("PET_NPROC_PER_NODE");
  const bool chosen_here = processes.empty() || processes == "auto" || processes == "cpu" || processes == "gpu";
  place.workers_per_node = chosen_here ? 0 : at_least_one("PET_NPROC_PER_NODE", read.need_number("PET_NPROC_PER_NODE"));
  place.master = read.address("PET_MASTER_ADDR", "PET_MASTER_PORT");
  place.job = file_word({"kubeflow", place.master->text()});
  return {.place = place,
          .reason = fmt::format("PET_NODE_RANK={} of PET_NNODES={}, PET_NPROC_PER_NODE={}", *place.rank, place.ranks,
                                processes.empty() ? "not set" : processes)};
}

LauncherAnswer resolve_ps_lite(const Variables& variables) {
  const VariableReader read(variables);
  if (!read.has("DMLC_ROLE") && !read.has("DMLC_PS_ROOT_URI")) {
    if (!read.has("DMLC_TRACKER_URI")) return {};
    return {.reason = "DMLC_TRACKER_URI is of XGBoost's tracker, not of ps-lite (DMLC_PS_ROOT_URI)"};
  }
  if (const auto missing =
          read.missing({"DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"});
      !missing.empty()) {
    return {.reason = "not set: " + missing};
  }
  LauncherPlace place{.launcher = Launcher::kPsLite};
  const std::string role = read.text("DMLC_ROLE");
  if (role != "worker" && role != "server" && role != "scheduler") {
    fail<InvalidArgument>("DMLC_ROLE='{}': expected worker, server or scheduler", role);
  }
  place.role = role == "worker" ? PsLiteRole::kWorker : role == "server" ? PsLiteRole::kServer : PsLiteRole::kScheduler;
  place.ranks = at_least_one("DMLC_NUM_WORKER", read.need_number("DMLC_NUM_WORKER"));
  place.servers = read.need_number("DMLC_NUM_SERVER");
  place.master = read.address("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT");
  if (place.master->port == 0) fail<InvalidArgument>("DMLC_PS_ROOT_PORT=0: the scheduler needs a port");
  place.host = read.text("DMLC_NODE_HOST");
  place.job = file_word({"dmlc", place.master->text()});
  return {
      .place = place,
      .reason = fmt::format("DMLC_ROLE={}, DMLC_NUM_WORKER={}, DMLC_NUM_SERVER={}", role, place.ranks, place.servers)};
}

LauncherAnswer resolve_indexed_job(const Variables& variables) {
  const VariableReader read(variables);
  if (!read.has("JOB_COMPLETION_INDEX")) return {};
  if (const auto missing = read.missing({"TRIREME_PODS", "TRIREME_SERVICE", "HOSTNAME"}); !missing.empty()) {
    return {.reason = "not set: " + missing + " (the manifests of 'trireme k8s' set them)"};
  }
  LauncherPlace place{.launcher = Launcher::kIndexedJob};
  place.ranks = at_least_one("TRIREME_PODS", read.need_number("TRIREME_PODS"));
  place.rank = read.rank("JOB_COMPLETION_INDEX", "TRIREME_PODS", place.ranks);
  place.node = *place.rank;
  place.nodes = place.ranks;
  place.local_rank = 0;
  place.local_ranks = 1;
  // The host name of a pod is <job>-<index>; the service makes it known as <job>-<index>.<service>.
  const std::string own = read.text("HOSTNAME");
  const std::string ending = fmt::format("-{}", *place.rank);
  if (!own.ends_with(ending)) {
    fail<InvalidArgument>("HOSTNAME={} does not end with JOB_COMPLETION_INDEX={}: is this a pod of an Indexed Job?",
                          own, *place.rank);
  }
  const std::string name = own.substr(0, own.size() - ending.size());
  const std::string service = read.text("TRIREME_SERVICE");
  place.master = read.address("TRIREME_SERVICE", "TRIREME_PORT");
  place.master->host = fmt::format("{}-0.{}", name, service);
  place.port_is_ours = place.master->port != 0;
  place.host = fmt::format("{}.{}", own, service);
  place.job = file_word({"k8s", name});
  return {.place = place,
          .reason = fmt::format("JOB_COMPLETION_INDEX={} of TRIREME_PODS={}", *place.rank, place.ranks)};
}

}  // namespace trireme::cluster
