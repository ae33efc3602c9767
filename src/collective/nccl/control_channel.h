#pragma once

#include <nccl.h>

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "collective/communicator.h"

namespace trireme::collective {

/// What one side of a message tells the other before any data moves.
struct Rendezvous {
  DType dtype = DType::kF32;
  std::uint32_t zero = 0;
  std::uint64_t count = 0;
  ncclUniqueId id = {};  ///< from the sender: how to connect
};

/// Rendezvous of pairs of ranks over the native engine, in order. Does not block. Not thread-safe, except
/// for `abort`.
class ControlChannel {
 public:
  explicit ControlChannel(std::unique_ptr<Communicator> ranks) : ranks_(std::move(ranks)), arrived_(ranks_->size()) {}
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  void send(Rank peer, const Rendezvous& message);

  /// Announces that one more message will come from `peer`.
  void expect(Rank peer);

  /// Returns the next message from `peer`; nullopt if it has not arrived.
  std::optional<Rendezvous> take(Rank peer);

  /// Checks what has arrived. Throws PeerLost or Timeout if a transfer failed.
  void advance();

  void abort(const std::string& reason) { ranks_->abort(reason); }

 private:
  struct Transfer {
    Rank peer;
    bool outgoing;
    Rendezvous message;
    Handle handle = {};
  };

  std::unique_ptr<Communicator> ranks_;
  std::list<Transfer> transfers_;                // their messages are in use until they end
  std::vector<std::deque<Rendezvous>> arrived_;  // by rank
};

}  // namespace trireme::collective
