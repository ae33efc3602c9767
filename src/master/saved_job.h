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

/// The same as text for a Store. Leases change all the time and the rest hardly ever, so each has an entry of its own.
struct SavedText {
  std::string job;     ///< all but the leases; empty = nothing is saved, or it has not changed
  std::string leases;  ///< likewise

  bool empty() const { return job.empty() && leases.empty(); }

  /// Returns what is new here since `before`.
  SavedText changes_since(const SavedText& before) const;

  /// Takes over what has changed.
  void apply(const SavedText& changes);
};

/// Convert to text, and back. Throws Corrupt if the text was not made by `to_text`.
SavedText to_text(const SavedJob& job);
SavedJob parse_saved_job(const SavedText& text);

}  // namespace trireme::master
