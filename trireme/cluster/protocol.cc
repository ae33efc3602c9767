#include "trireme/cluster/protocol.h"

namespace trireme::cluster {

std::string to_string(Role role) { return role == Role::kWorker ? "worker" : "server"; }

std::string to_string(JobState state) {
  switch (state) {
    case JobState::kGathering:
      return "gathering";
    case JobState::kRunning:
      return "running";
    case JobState::kFailed:
      return "failed";
    case JobState::kFinished:
      return "finished";
  }
  return "?";
}

}  // namespace trireme::cluster
