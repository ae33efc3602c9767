#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "collective/native/endpoint.h"
#include "train/strategy/catch_up_protocol.h"

namespace trireme {

/// Lets learners, who want to take part, follow the state of the job while its members train: each gets a copy of it
/// between two steps, and then what every step changes. So when they come in, they have what the others have, and
/// nobody waits while it is sent.
///
/// Called by the training thread; one thread per learner sends. If more waits for a learner than the whole state would
/// be, it is given up: it gets all of it when it comes in.
class CatchUpServer {
 public:
  /// `endpoint` is where learners come to; it outlives this object.
  explicit CatchUpServer(collective::Endpoint& endpoint, std::uint64_t bits_per_second = 0);
  ~CatchUpServer();

  /// Whether anybody follows.
  bool any() const;

  /// What a step has changed, copied for those who follow.
  void add(const StepChange& change, const std::vector<Bytes>& gradients_and_buffers);

  /// Lets in whoever has come since the last call, and says how many these are; what they begin with is copied. `state`
  /// is asked for if anybody has come.
  std::size_t accept(const Position& at, const std::function<std::vector<NamedParameter>()>& state);

  /// Nothing more is told: the state may change in other ways now. Does not wait until all is sent.
  void end();

 private:
  struct Message;
  class Feed;

  static std::shared_ptr<const Message> make_message(CatchUpHeader header, const std::vector<Bytes>& parts);

  collective::Endpoint& endpoint_;
  const std::uint64_t bits_per_second_;
  std::vector<std::unique_ptr<Feed>> feeds_;
};

}  // namespace trireme
