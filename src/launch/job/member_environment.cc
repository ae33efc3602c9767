#include "launch/job/member_environment.h"

#include <algorithm>
#include <cstdlib>

#include "base/threads.h"
#include "launch/companion.h"
#include "launch/job/master_flags.h"

namespace trireme::launch {

std::vector<std::string> master_words(const JobSpec& spec, const observe::RunFolder& folder, const std::string& store) {
  const MasterFlags flags{.workers = spec.workers,
                          .min_workers = spec.min_workers,
                          .min_start = spec.min_start,
                          .servers = spec.servers,
                          .replicas = spec.replicas,
                          .listen = spec.part             ? spec.part->listen.text()
                                    : spec.listen.empty() ? MasterFlags().listen
                                                          : spec.listen,
                          .announce = (folder.path() / "master.json").string(),
                          .store = store,
                          .wait_for_workers = spec.wait_for_workers,
                          .plan_within = spec.plan_within,
                          .max_views = spec.max_views,
                          .run_dir = folder.path().string(),
                          .dash = spec.dash,
                          .dash_cert = spec.dash_cert};
  std::vector<std::string> argv = to_arguments(master_flags(), flags);
  argv.insert(argv.begin(), {companion_program("trireme"), "master"});
  return argv;
}

std::map<std::string, std::string> member_environment(const JobSpec& spec, const observe::RunFolder& folder,
                                                      const JobMember& member) {
  const auto count_of = [&](const char* role, std::uint32_t count) {
    return std::to_string(std::max(count, member.role == role ? member.rank + 1 : 0));
  };
  std::map<std::string, std::string> env{{"TRIREME_ROLE", member.role},
                                         {"TRIREME_RANK", std::to_string(member.rank)},
                                         {"TRIREME_WORKERS", count_of("worker", spec.workers)},
                                         {"TRIREME_INITIAL_WORKERS", std::to_string(spec.workers)},
                                         {"TRIREME_SERVERS", count_of("server", spec.servers)},
                                         {"TRIREME_MASTER", member.master.text()},
                                         {"TRIREME_STORE", member.store},
                                         {"TRIREME_TRANSPORT", spec.transport},
                                         {"TRIREME_THROTTLE", spec.throttle},
                                         {"TRIREME_LATENCY_MS", std::to_string(spec.latency_ms)},
                                         {"TRIREME_TRACE_ALGORITHMS", spec.trace_algorithms ? "1" : "0"},
                                         {"TRIREME_TRACE_STEPS", spec.trace_steps ? "1" : "0"},
                                         {"TRIREME_TIMELINE", spec.timeline ? "1" : "0"},
                                         {"TRIREME_TRAIN_OPTIONS", spec.train_options},
                                         {"TRIREME_BACKEND", spec.backend},
                                         {"TRIREME_METRICS", spec.metrics},
                                         {"TRIREME_RUN_DIR", folder.path().string()}};
  // OpenBLAS has its own threads, one per core in every worker, which wait by spinning; LibTorch cannot limit them.
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) {
    env["OPENBLAS_NUM_THREADS"] = std::to_string(spec.threads > 0 ? spec.threads : threads_per_worker(spec.workers));
  }
  return env;
}

}  // namespace trireme::launch
