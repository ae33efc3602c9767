#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/deadline.h"

#include "master/view_policy.h"
#include "net/service.h"

namespace trireme::master {

/// A process that takes part, or wants to.
struct Member {
  cluster::MemberInfo info;
  MemberState state;
  std::uint64_t session = 0;  ///< of its connection to the master
  Deadline::Clock::time_point last_heard;
  bool heard = true;  ///< false: it was a member under another master, and has not come to this one
  bool in_view = false;
  bool done = false;                                                           ///< it has made all steps
  std::optional<std::pair<net::SessionPtr, net::FrameHeader>> waits_for_view;  ///< whom to answer when there is one

  bool alive() const { return !state.left && !state.disconnected; }
  std::string name() const;  ///< "worker 1"

  /// Lets it go on into a view, or to the end; its silence counts from `now`.
  void answer(const cluster::JoinReply& reply, Deadline::Clock::time_point now);

  /// Tells it that there will be no view for it.
  void refuse(const std::string& reason);
};

/// All of them, as the master knows them. A value; the master guards it.
class MemberTable {
 public:
  /// Null if there is no such member.
  Member* find(cluster::MemberId id);

  /// Who lives with that role and slot; null if nobody does.
  const Member* living(cluster::Role role, std::uint32_t slot) const;

  bool any_alive(cluster::Role role) const;

  /// Whether there is a server of which nobody knows whether it lives.
  bool any_server_unheard() const;

  Member& add(const cluster::MemberInfo& info, cluster::Role role);

  /// Takes in the members of a view that another master formed. They count as heard of at `last_heard`.
  void remember(const cluster::ViewInfo& view, Deadline::Clock::time_point last_heard);

  /// The living workers, by slot.
  std::vector<cluster::MemberId> workers() const;

  /// The same as the decision about the next view sees them.
  std::vector<ViewCandidate> candidates() const;

  std::vector<MemberState> states() const;

  /// From now on the members of `view` are in it, and nobody else. The dead are forgotten.
  void enter(const cluster::ViewInfo& view);

  std::map<cluster::MemberId, Member>& all() { return members_; }
  const std::map<cluster::MemberId, Member>& all() const { return members_; }

 private:
  std::map<cluster::MemberId, Member> members_;
};

}  // namespace trireme::master
