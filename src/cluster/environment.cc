#include "cluster/environment.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "cluster/member_metrics.h"

namespace trireme::cluster {
namespace {

using Json = nlohmann::json;

const char* own_lookup(const char* name) { return std::getenv(name); }

std::string text_of(const Lookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value == nullptr ? "" : value;
}

std::uint32_t number_of(const Lookup& lookup, const char* name, std::uint32_t fallback) {
  const std::string text = text_of(lookup, name);
  if (text.empty()) return fallback;
  std::uint32_t value = 0;
  const auto [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || stopped != text.data() + text.size()) {
    fail<InvalidArgument>("{}='{}': expected a number", name, text);
  }
  return value;
}

void check_rank(const JobEnvironment& place) {
  const std::uint32_t count = place.role == Role::kWorker ? place.workers : place.servers;
  if (place.rank >= count) {
    fail<InvalidArgument>("{} {} is invalid: the job has {} (ranks count from 0)", to_string(place.role), place.rank,
                          count);
  }
}

JobEnvironment from_own_variables(const Lookup& lookup, const std::string& role) {
  JobEnvironment place;
  if (role != "worker" && role != "server") {
    fail<InvalidArgument>("TRIREME_ROLE='{}'{}: expected worker or server", role,
                          did_you_mean(role, {"worker", "server"}));
  }
  place.role = role == "worker" ? Role::kWorker : Role::kServer;
  place.rank = number_of(lookup, "TRIREME_RANK", 0);
  place.workers = number_of(lookup, "TRIREME_WORKERS", 1);
  place.servers = number_of(lookup, "TRIREME_SERVERS", 1);
  place.store = text_of(lookup, "TRIREME_STORE");
  const std::string master = text_of(lookup, "TRIREME_MASTER");
  if (master.empty() && place.store.empty()) {
    fail<InvalidArgument>(
        "TRIREME_ROLE is set but neither TRIREME_MASTER (host:port of the master) nor TRIREME_STORE (where it is "
        "found) "
        "is");
  }
  if (!master.empty()) place.master = net::parse_address(master);
  if (const std::string listen = text_of(lookup, "TRIREME_LISTEN"); !listen.empty()) {
    place.listen = net::parse_address(listen);
  }
  if (const std::string transport = text_of(lookup, "TRIREME_TRANSPORT"); !transport.empty()) {
    place.transport = net::parse_transport(transport);
  }
  if (const std::string speed = text_of(lookup, "TRIREME_THROTTLE"); !speed.empty()) {
    place.bits_per_second = net::parse_bit_rate(speed);
  }
  place.latency = std::chrono::milliseconds(number_of(lookup, "TRIREME_LATENCY_MS", 0));
  place.trace_algorithms = number_of(lookup, "TRIREME_TRACE_ALGORITHMS", 0) != 0;
  place.trace_steps = number_of(lookup, "TRIREME_TRACE_STEPS", 0) != 0;
  place.timeline = number_of(lookup, "TRIREME_TIMELINE", 0) != 0;
  place.backend = read_backend(lookup);
  place.run_folder = text_of(lookup, "TRIREME_RUN_DIR");
  place.train_options = text_of(lookup, "TRIREME_TRAIN_OPTIONS");
  place.initial_workers = static_cast<std::uint32_t>(number_of(lookup, "TRIREME_INITIAL_WORKERS", 0));
  check_rank(place);
  return place;
}

std::vector<std::string> addresses(const Json& cluster, const std::string& job) {
  return cluster.contains(job) ? cluster.at(job).get<std::vector<std::string>>() : std::vector<std::string>{};
}

/// JSON numbers may have a sign or a fraction, or exceed any rank.
std::uint32_t task_index(const Json& index) {
  if (!index.is_number_unsigned() || index.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    fail<InvalidArgument>("TF_CONFIG: task index {}: expected a whole number from 0",
                          index.is_number() ? index.dump() : index.type_name());
  }
  return index.get<std::uint32_t>();
}

JobEnvironment from_tf_config(const std::string& text) {
  JobEnvironment place;
  try {
    const Json config = Json::parse(text);
    const Json& cluster = config.at("cluster");
    for (const auto& [job, hosts] : cluster.items()) {
      if (job != "chief" && job != "master" && job != "worker" && job != "ps" && job != "evaluator") {
        fail<InvalidArgument>("TF_CONFIG: unknown job '{}'{}: expected chief, master, worker or ps", job,
                              did_you_mean(job, {"chief", "master", "worker", "ps"}));
      }
    }
    auto chief = addresses(cluster, "chief");
    if (chief.empty()) chief = addresses(cluster, "master");
    const auto workers = addresses(cluster, "worker");
    const auto servers = addresses(cluster, "ps");
    if (chief.size() > 1) fail<InvalidArgument>("TF_CONFIG: there can be one chief, not {}", chief.size());
    if (chief.empty() && workers.empty()) fail<InvalidArgument>("TF_CONFIG: the cluster has neither chief nor workers");
    place.workers = static_cast<std::uint32_t>(chief.size() + workers.size());
    place.servers = static_cast<std::uint32_t>(servers.size());
    place.master = net::parse_address(chief.empty() ? workers.front() : chief.front());

    const auto type = config.at("task").at("type").get<std::string>();
    const auto index = task_index(config.at("task").at("index"));
    const auto listen_at = [&](const std::vector<std::string>& hosts) {
      if (index >= hosts.size()) {
        fail<InvalidArgument>("TF_CONFIG: the task is {} {}, but the cluster has {} of that type (they count from 0)",
                              type, index, hosts.size());
      }
      place.listen = net::parse_address(hosts[index]);
    };
    if (type == "chief" || type == "master") {
      if (chief.empty()) fail<InvalidArgument>("TF_CONFIG: the task is '{}', which the cluster does not have", type);
      place.rank = index;
      listen_at(chief);
    } else if (type == "worker") {
      place.rank = index + static_cast<std::uint32_t>(chief.size());
      listen_at(workers);
    } else if (type == "ps") {
      place.role = Role::kServer;
      place.rank = index;
      listen_at(servers);
    } else {
      fail<InvalidArgument>("TF_CONFIG: task type '{}'{}: expected chief, master, worker or ps", type,
                            did_you_mean(type, {"chief", "master", "worker", "ps"}));
    }
    place.hosts_master = place.role == Role::kWorker && place.rank == 0;
    if (place.hosts_master) place.listen.port = 0;  // the address given is the master's
  } catch (const Json::exception& problem) {
    fail<InvalidArgument>(
        "TF_CONFIG is not what it should be ({}): expected {{\"cluster\": {{\"worker\": "
        "[\"host:port\", …], \"ps\": […]}}, \"task\": {{\"type\": \"worker\", \"index\": 0}}}}",
        problem.what());
  }
  return place;
}

/// A short secret could be guessed.
void check_secret(const std::string& secret, const std::string& where) {
  constexpr std::size_t kShortest = 16;
  if (secret.size() >= kShortest) return;
  fail<InvalidArgument>(
      "the secret in {} is too short ({} of at least {} characters); a good one is made by: openssl rand -hex "
      "32",
      where, secret.size(), kShortest);
}

}  // namespace

LogOptions JobEnvironment::logging() const {
  return {.role = fmt::format("{} {}", to_string(role), rank), .level = log_level};
}

std::string read_backend(const Lookup& lookup) {
  const std::string backend = text_of(lookup, "TRIREME_BACKEND");
  if (backend.empty() || backend == "auto" || backend == "native") return "";
  if (backend == "mpi") return backend;
  fail<InvalidArgument>("TRIREME_BACKEND='{}'{}: expected native or mpi", backend,
                        did_you_mean(backend, {"native", "mpi"}));
}

std::string read_metrics(const Lookup& lookup) {
  std::string metrics = text_of(lookup, "TRIREME_METRICS");
  if (metrics.empty()) return metrics;
  try {
    parse_metrics_address(metrics);
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("TRIREME_METRICS: {}", problem.what());
  }
  return metrics;
}

std::string read_secret(const Lookup& lookup) {
  if (const std::string secret = text_of(lookup, "TRIREME_SECRET"); !secret.empty()) {
    check_secret(secret, "TRIREME_SECRET");
    return secret;
  }
  const std::string file = text_of(lookup, "TRIREME_SECRET_FILE");
  if (file.empty()) return "";
  std::string content;
  try {
    content = read_file(file);
  } catch (const IoError& problem) {
    fail<InvalidArgument>("the file with the secret (--secret-file, TRIREME_SECRET_FILE): {}", problem.what());
  }
  content.erase(content.find_last_not_of("\r\n") + 1);
  check_secret(content, file);
  return content;
}

std::optional<JobEnvironment> read_environment(const Lookup& lookup) {
  std::optional<JobEnvironment> place;
  if (const std::string role = text_of(lookup, "TRIREME_ROLE"); !role.empty()) {
    place = from_own_variables(lookup, role);
  } else if (const std::string config = text_of(lookup, "TF_CONFIG"); !config.empty()) {
    place = from_tf_config(config);
    place->run_folder = text_of(lookup, "TRIREME_RUN_DIR");
  }
  if (!place) return std::nullopt;
  if (const std::string level = text_of(lookup, kLogLevelVariable); !level.empty()) {
    place->log_level = parse_log_level(kLogLevelVariable, level);
  }
  place->metrics = read_metrics(lookup);
  place->secret = read_secret(lookup);
  if (place->secret.empty()) {
    fail<InvalidArgument>(
        "a job needs a secret: put the same one in TRIREME_SECRET, or in a file that "
        "TRIREME_SECRET_FILE names, for every process");
  }
  return place;
}

std::optional<JobEnvironment> read_environment() { return read_environment(own_lookup); }

std::string read_metrics() { return read_metrics(own_lookup); }

}  // namespace trireme::cluster
