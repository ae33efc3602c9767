#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "collective/backend.h"
#include "collective/mpi/mpi_transport.h"

namespace trireme::collective {

/// Sends and receives between pairs of ranks over MPI, any number at a time. Those of one pair and direction are
/// matched in order: MPI does not let messages of one tag overtake each other.
///
/// The sender offers (dtype, count), the receiver answers with what it expects, and both compare; data follows only if
/// they agree. So a mismatch is an error on both sides and does not affect later messages.
class MpiMessages {
 public:
  explicit MpiMessages(MpiTransport& transport);
  ~MpiMessages();

  /// Starts a send or recv. `done` is called from `advance`, or by this call itself.
  void post(const Operation& operation, Deadline deadline, Backend::Done done);

  /// Moves what it can without waiting, and ends what is complete, late, or aborted. Returns whether anything ended.
  bool advance();

  bool empty() const;

 private:
  struct Posted;
  using List = std::deque<std::unique_ptr<Posted>>;

  /// What is posted with one peer.
  struct Link {
    List sends;
    List recvs;
    bool broken = false;  // the pair may be out of step
  };

  bool advance(List& list);
  bool begin_data(Posted& posted);
  void end_all(Link& link, const std::exception_ptr& why);
  std::exception_ptr timeout(const Posted& posted) const;

  MpiTransport& transport_;
  std::vector<Link> links_;  // by rank
};

}  // namespace trireme::collective
