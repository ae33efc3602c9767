#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "base/flag.h"

namespace trireme::launch {

/// What `trireme master` is asked to do. `run_job` writes this command line, the command reads it.
struct MasterFlags {
  std::uint32_t workers = 1;
  std::uint32_t min_workers = 1;
  std::uint32_t min_start = 0;
  std::uint32_t servers = 1;
  std::uint32_t replicas = 0;
  std::string listen = "127.0.0.1:0";
  std::string advertise = {};
  std::string announce = {};
  std::string secret_file = {};
  std::string store = {};
  bool standby = false;
  double hang_after = 3;
  double gather_within = 120;
  double wait_for_workers = 600;
  double plan_within = 0;
  std::uint64_t max_views = 0;
  bool allow_plain = false;
  std::string log_level = {};
  std::string run_dir = {};
  std::string dash = "off";
  std::string dash_cert = {};

  bool operator==(const MasterFlags&) const = default;
};

/// Returns the flags, as a tuple of Flag, in the order of the help.
inline auto master_flags() {
  const auto flag = []<class Value>(const char* names, Value MasterFlags::*member, const char* help,
                                    bool show_default = false) {
    return Flag<MasterFlags, Value>{.names = names, .member = member, .help = help, .show_default = show_default};
  };
  constexpr bool kShowDefault = true;
  return std::tuple{
      flag("--workers", &MasterFlags::workers, "number of workers", kShowDefault),
      flag("--min-workers", &MasterFlags::min_workers, "the job waits while there are fewer", kShowDefault),
      flag("--min-start", &MasterFlags::min_start,
           "begin with at least this many when --gather-within is over; 0: only with all", kShowDefault),
      flag("--servers", &MasterFlags::servers, "number of servers", kShowDefault),
      flag("--replicas", &MasterFlags::replicas, "replicas of the parameters on other servers: 0 or 1", kShowDefault),
      flag("--listen", &MasterFlags::listen, "host:port; port 0: any free one", kShowDefault),
      flag("--advertise", &MasterFlags::advertise, "host name for others to connect to, when listening on 0.0.0.0"),
      flag("--announce", &MasterFlags::announce, "file to write the address to, as JSON"),
      flag("--secret-file", &MasterFlags::secret_file, "file with the job's secret (or TRIREME_SECRET)"),
      flag("--store", &MasterFlags::store,
           "where to keep what must outlive this master: sqlite:/folder/job.db, or etcd://host:2379,… for several "
           "masters (etcds:// over TLS)"),
      flag("--standby", &MasterFlags::standby, "wait until the leading master is gone, then take over"),
      flag("--hang-after", &MasterFlags::hang_after, "seconds of silence after which a member is given up",
           kShowDefault),
      flag("--gather-within", &MasterFlags::gather_within, "seconds to wait for all members", kShowDefault),
      flag("--wait-for-workers", &MasterFlags::wait_for_workers,
           "seconds to wait for more members when too few are left", kShowDefault),
      flag("--plan-within", &MasterFlags::plan_within,
           "seconds after the start during which a death does not end a job whose workers have not yet said that they "
           "are elastic; 0: it ends the job",
           kShowDefault),
      flag("--max-views", &MasterFlags::max_views, "give up after this many views; 0: never", kShowDefault),
      flag("--allow-plain", &MasterFlags::allow_plain, "accept other hosts without TLS: on a trusted network only"),
      flag("--run-dir", &MasterFlags::run_dir, "the run's folder, for the page and for stacks of threads"),
      flag(
          "--dash", &MasterFlags::dash,
          "serve the run's page, and /metrics, on this host:port; beyond loopback over TLS, and with a token; off: not",
          kShowDefault),
      flag("--dash-cert", &MasterFlags::dash_cert,
           "PEM file with the page's certificate and key; unless given, one is made where it is needed"),
      flag("--log-level", &MasterFlags::log_level,
           "least level that it logs: debug, info, warning or error; TRIREME_LOG_LEVEL, or info, unless given")};
}

}  // namespace trireme::launch
