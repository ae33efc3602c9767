#pragma once

#include <optional>
#include <string>

#include "cluster/protocol.h"
#include "master/lease_table.h"

namespace trireme::master {

/// What a master needs to take over.
struct SavedJob {
  std::string launch;  ///< see JoinReply
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

/// Convert to text for a Store, and back. Throws Corrupt if the text was not made by `to_text`.
std::string to_text(const SavedJob& job);
SavedJob parse_saved_job(const std::string& text);

}  // namespace trireme::master
