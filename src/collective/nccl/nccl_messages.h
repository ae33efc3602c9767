#pragma once

#include <deque>
#include <map>
#include <memory>

#include "collective/backend.h"
#include "collective/nccl/control_channel.h"
#include "collective/nccl/nccl_stream.h"

namespace trireme::collective {

/// Sends and receives between pairs of ranks by NCCL, those of one pair and direction one after the other. Both sides
/// tell each other what they are about to do, and compare, before a kernel is launched. Not thread-safe.
class NcclMessages {
 public:
  /// `senders` carries the control messages of senders, `receivers` the answers: so each side knows which message comes
  /// next, whatever goes the other way.
  NcclMessages(Rank rank, std::unique_ptr<Communicator> senders, std::unique_ptr<Communicator> receivers);
  ~NcclMessages();

  /// Starts a send or recv. `done` is called from `advance` or `end_all`.
  void post(const Operation& operation, Deadline deadline, Backend::Done done);

  /// Moves what it can without waiting. Throws what ends the whole group: PeerLost, Timeout, IoError. The caller has
  /// set the device.
  void advance();

  bool empty() const;

  /// Makes what is in progress fail soon. Thread-safe.
  void abort(const std::string& reason);

  /// Aborts all kernels, and ends what is posted with `why`.
  void end_all(const std::exception_ptr& why);

 private:
  struct Posted;
  struct Link;

  bool advance(Link& link);
  void announce(Link& link, Posted& posted);
  bool compare(Link& link, Posted& posted);

  Rank rank_;
  ControlChannel senders_;
  ControlChannel receivers_;
  std::map<std::pair<Rank, OperationKind>, std::unique_ptr<Link>> links_;  // by peer and direction
};

}  // namespace trireme::collective
