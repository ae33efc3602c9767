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
  bool heard = true;  ///< false: a member under another master that has not contacted this one yet
  bool in_view = false;
  bool was_in_view = false;  ///< in the current view, until it was given up
  bool done = false;         ///< it has made all steps
  bool kept_out = false;     ///< a server that others do not reach: see leave_out_servers
  std::optional<std::pair<net::SessionPtr, net::FrameHeader>> waits_for_view;  ///< the request to answer then
  std::uint64_t last_lease = 0;     ///< the number of its last request for work
  std::uint64_t saved_lease = 0;    ///< and of the last one whose report is saved
  cluster::LeaseReply last_leased;  ///< and the answer, in case it asks again
  cluster::Activity activity = {};  ///< with the last heartbeat
  cluster::HostLoad load = {};      ///< as last told

  bool alive() const { return !state.left && !state.disconnected; }
  bool may_serve() const { return state.role == cluster::Role::kServer && alive() && !kept_out; }
  std::string name() const;  ///< "worker 1"

  /// Lets it enter a view, or end; its silence counts from `now`.
  void answer(const cluster::JoinReply& reply, Deadline::Clock::time_point now);

  /// Tells it that there will be no view for it.
  void refuse(const std::string& reason);
};

/// All members that the master knows. A value; the master's lock guards it.
class MemberTable {
 public:
  /// Returns null if there is no such member.
  Member* find(cluster::MemberId id);

  /// Returns the live member with that role and slot; null if there is none.
  const Member* living(cluster::Role role, std::uint32_t slot) const;

  bool any_alive(cluster::Role role) const;

  /// Returns whether a server lives that may take part.
  bool any_server() const;

  /// Returns whether there is a server that has not contacted this master yet, so that it may or may not be alive.
  bool any_server_unheard() const;

  Member& add(const cluster::MemberInfo& info, cluster::Role role);

  /// Adds the members of a view that another master formed, as last heard of at `last_heard`.
  void remember(const cluster::ViewInfo& view, Deadline::Clock::time_point last_heard);

  /// Returns the live workers, by slot.
  std::vector<cluster::MemberId> workers() const;

  /// Returns the live workers as input of `decide_view`.
  std::vector<ViewCandidate> candidates() const;

  std::vector<MemberState> states() const;

  /// Makes the members of `view` the only ones in it. Removes the dead.
  void enter(const cluster::ViewInfo& view);

  std::map<cluster::MemberId, Member>& all() { return members_; }
  const std::map<cluster::MemberId, Member>& all() const { return members_; }

 private:
  std::map<cluster::MemberId, Member> members_;
};

}  // namespace trireme::master
