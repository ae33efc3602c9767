#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "collective/backend.h"
#include "collective/native/mesh.h"

namespace trireme::collective {

/// Sends and receives between pairs of ranks, any number at a time. Those of one pair and direction are matched in
/// order.
///
/// A sender offers (dtype, count), the receiver accepts once a recv of the same shape was posted, then the data follows
/// in pieces. So nothing is buffered without a receiver, and a send never blocks what comes after it.
class Messages {
 public:
  explicit Messages(Mesh& mesh);
  ~Messages();

  /// Starts a send or recv. `done` is called from `advance` or `check`, or by this call itself.
  void post(const Operation& operation, Deadline deadline, Backend::Done done);

  /// Moves what it can without waiting; returns whether anything moved. Errors end the operations they belong to.
  bool advance();

  /// Ends operations whose deadline has passed, or all of them if a rank is gone.
  void check();

  bool empty() const;

  /// Returns the descriptors to wait on.
  std::vector<int> descriptors() const;

 private:
  struct Posted;
  struct Link;

  bool advance(Link& link);
  std::exception_ptr timeout(const Posted& posted) const;
  std::exception_ptr lost(const Posted& posted) const;

  Mesh& mesh_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; null for ourselves
};

}  // namespace trireme::collective
