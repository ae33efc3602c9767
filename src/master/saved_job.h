#pragma once

#include <optional>
#include <string>

#include "cluster/protocol.h"
#include "master/lease_table.h"

namespace trireme::master {

/// What a master that takes over has to know.
struct SavedJob {
  cluster::JobPhase state = cluster::JobPhase::kGathering;
  std::string reason;
  cluster::ViewInfo view;
  cluster::MemberId next_member = 1;
  std::uint32_t wanted_workers = 0;
  std::uint32_t wanted_servers = 0;
  bool stop = false;
  std::optional<cluster::Plan> plan;
  LeaseMemory leases;
  nlohmann::json result;
};

/// As text for a Store, and back. Throws Corrupt if the text is not what `to_text` made.
std::string to_text(const SavedJob& job);
SavedJob parse_saved_job(const std::string& text);

}  // namespace trireme::master
