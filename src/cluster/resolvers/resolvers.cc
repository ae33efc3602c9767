#include "cluster/resolvers/resolvers.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "cluster/resolvers/variable_reader.h"

namespace trireme::cluster {
namespace {

using Resolver = LauncherAnswer (*)(const Variables&);

struct LauncherRow {
  Launcher launcher;
  const char* name;
  Resolver resolve;  // null: see read_environment
};

constexpr std::array kLaunchers{LauncherRow{Launcher::kTrireme, "Trireme", nullptr},
                                LauncherRow{Launcher::kTfConfig, "TF_CONFIG", nullptr},
                                LauncherRow{Launcher::kTorchrun, "torchrun", resolve_torchrun},
                                LauncherRow{Launcher::kOpenMpi, "Open MPI", resolve_open_mpi},
                                LauncherRow{Launcher::kMpich, "MPICH", resolve_mpich},
                                LauncherRow{Launcher::kSlurm, "Slurm", resolve_slurm},
                                LauncherRow{Launcher::kKubeflow, "Kubeflow", resolve_kubeflow},
                                LauncherRow{Launcher::kPsLite, "ps-lite", resolve_ps_lite},
                                LauncherRow{Launcher::kIndexedJob, "Indexed Job", resolve_indexed_job}};

/// Of TF_CONFIG: how many tasks its cluster has; 0 if it cannot be read, which read_environment reports.
std::uint32_t tasks_in(const std::string& tf_config) {
  const auto config = nlohmann::json::parse(tf_config, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("cluster") || !config["cluster"].is_object()) return 0;
  std::size_t tasks = 0;
  for (const auto& [job, hosts] : config["cluster"].items()) tasks += hosts.is_array() ? hosts.size() : 0;
  return static_cast<std::uint32_t>(tasks);
}

/// What two launchers can disagree on.
struct Claim {
  Launcher launcher;
  std::uint32_t ranks;  // 0 = not known
  std::optional<std::uint32_t> nodes;
  std::string reason;
};

Claim claim_of(const LauncherPlace& place, const std::string& reason) {
  if (!place.per_node) return {place.launcher, place.ranks, place.nodes, reason};
  return {place.launcher, place.ranks * place.workers_per_node, place.ranks, reason};
}

/// Whether `outer` started one process per node, each of which started `inner`'s: torchrun or mpirun under srun. The
/// daemons of MPI, which mpirun itself starts with srun, are one fewer where mpirun's own host has none.
bool started_by(const Claim& inner, const Claim& outer) {
  if (!outer.nodes || *outer.nodes != outer.ranks) return false;
  const bool mpi = inner.launcher == Launcher::kOpenMpi || inner.launcher == Launcher::kMpich;
  if (mpi && outer.launcher == Launcher::kSlurm) return true;
  return inner.nodes ? *inner.nodes == outer.ranks : inner.ranks % outer.ranks == 0;
}

void check_agree(const Claim& one, const Claim& other) {
  if (one.ranks == 0 || other.ranks == 0 || one.ranks == other.ranks) return;
  if (started_by(one, other) || started_by(other, one)) return;
  fail<InvalidArgument>(
      "{} and {} disagree on the number of processes, {} and {}: {}; {}. Start the job with one of them, or unset the "
      "other's variables",
      to_string(one.launcher), to_string(other.launcher), one.ranks, other.ranks, one.reason, other.reason);
}

}  // namespace

const char* to_string(Launcher launcher) {
  for (const LauncherRow& row : kLaunchers) {
    if (row.launcher == launcher) return row.name;
  }
  return "?";
}

bool LauncherPlace::on_one_host() const {
  if (nodes == 1u) return true;
  if (local_ranks && !per_node) return *local_ranks == ranks;
  return master.has_value() && net::is_loopback(master->host);
}

Resolution resolve(const Variables& variables) {
  const VariableReader read(variables);
  Resolution result;
  std::optional<Claim> first;
  const auto take = [&](Launcher launcher, const std::string& reason) {
    result.launcher = launcher;
    result.findings.push_back({launcher, /*taken=*/true, reason});
  };
  if (const std::string role = read.text("TRIREME_ROLE"); !role.empty()) {
    take(Launcher::kTrireme, "TRIREME_ROLE=" + role);
  }
  if (const std::string config = read.text("TF_CONFIG"); !config.empty()) {
    const Claim claim{Launcher::kTfConfig, tasks_in(config), {}, "TF_CONFIG"};
    if (result.launcher) {
      result.findings.push_back({Launcher::kTfConfig, false, "TRIREME_ROLE goes before TF_CONFIG"});
    } else {
      take(Launcher::kTfConfig, fmt::format("TF_CONFIG names {}", counted(claim.ranks, "task")));
      first = claim;
    }
  }
  for (const LauncherRow& row : kLaunchers) {
    if (row.resolve == nullptr) continue;
    const LauncherAnswer answer = row.resolve(variables);
    if (answer.reason.empty()) continue;
    if (!answer.place) {
      result.findings.push_back({row.launcher, false, answer.reason});
      continue;
    }
    if (answer.place->ranks == 1 && !answer.place->per_node && !answer.place->servers) {
      result.findings.push_back({row.launcher, false, answer.reason + ": it started one process only"});
      continue;
    }
    if (first) check_agree(*first, claim_of(*answer.place, answer.reason));
    if (result.launcher) {
      result.findings.push_back(
          {row.launcher, false, fmt::format("{}; {} goes before it", answer.reason, to_string(*result.launcher))});
      continue;
    }
    take(row.launcher, answer.reason);
    result.place = answer.place;
    first = claim_of(*answer.place, answer.reason);
  }
  return result;
}

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const auto equals = line.find('=');
    if (equals != std::string_view::npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

}  // namespace trireme::cluster
