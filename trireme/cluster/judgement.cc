// The master's decisions as pure functions of what it knows.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/cluster/master.h"

namespace trireme::cluster {

Health judge_member(const MemberState& member, std::chrono::milliseconds hang_after) {
  if (member.left) return {};
  const std::string who = fmt::format("{} {} (pid {})", to_string(member.role), member.rank, member.pid);
  if (member.disconnected) return {true, who + " died: its connection to the master ended; see its log"};
  if (member.silent_for > hang_after) {
    return {true, fmt::format("{} hangs: no heartbeat for {:.1f} s; is it stopped, or its machine overloaded?", who,
                              static_cast<double>(member.silent_for.count()) / 1000.0)};
  }
  return {};
}

std::string describe_missing(std::uint32_t workers, std::uint32_t servers, const std::vector<MemberState>& here) {
  std::string text;
  const auto list = [&](Role role, std::uint32_t count) {
    for (Rank rank = 0; rank < count; ++rank) {
      const bool present = std::any_of(here.begin(), here.end(), [&](const MemberState& member) {
        return member.role == role && member.rank == rank && !member.disconnected;
      });
      if (!present) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(role), rank);
    }
  };
  list(Role::kServer, servers);
  list(Role::kWorker, workers);
  return text;
}

}  // namespace trireme::cluster
