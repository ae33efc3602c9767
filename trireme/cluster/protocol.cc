#include "trireme/cluster/protocol.h"

namespace trireme::cluster {

std::string to_string(Role role) { return role == Role::kWorker ? "worker" : "server"; }

namespace {

std::vector<net::Address> addresses(const std::vector<MemberInfo>& members) {
  std::vector<net::Address> all;
  for (const MemberInfo& member : members) all.push_back(member.address);
  return all;
}

}  // namespace

std::vector<net::Address> ViewInfo::worker_addresses() const { return addresses(workers); }

std::vector<net::Address> ViewInfo::server_addresses() const { return addresses(servers); }

std::string to_string(JobState state) {
  switch (state) {
    case JobState::kGathering:
      return "gathering";
    case JobState::kRunning:
      return "running";
    case JobState::kWaiting:
      return "waiting";
    case JobState::kFailed:
      return "failed";
    case JobState::kFinished:
      return "finished";
  }
  return "?";
}

}  // namespace trireme::cluster
