#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace trireme::net {

/// A queue of records in memory shared by one producer and one consumer process. Neither trusts the other's numbers:
/// positions are checked and records copied out before anything is made of them.
///
/// Layout: a control block of kControlBytes, then the data; positions count bytes since the beginning.
class Ring {
 public:
  static constexpr std::size_t kControlBytes = 192;

  /// `memory` is zeroed before the first use; its size beyond the control block is the capacity, a power of two.
  explicit Ring(MutableBytes memory);

  /// Appends one record made of `parts`, or returns false if it does not fit now. Producer only.
  /// Throws InvalidArgument if it can never fit, Corrupt if the consumer's position is impossible.
  bool push(std::span<const Bytes> parts);

  /// Removes the oldest record into `record`, or returns false if there is none. Consumer only.
  /// Throws Corrupt if the producer wrote nonsense.
  bool pop(std::string& record);

  bool empty() const;

  /// The consumer is about to sleep: a producer that sees this rings its doorbell after a push. The consumer looks at
  /// empty() once more after it has set this.
  void set_sleeping(bool sleeping);
  bool consumer_sleeps() const;

  std::size_t capacity() const { return data_.size(); }
  std::size_t max_record() const;  ///< the largest that ever fits

 private:
  struct Control;

  void copy_in(std::uint64_t position, Bytes bytes);
  void copy_out(std::uint64_t position, MutableBytes bytes) const;

  Control* control_;
  MutableBytes data_;
};

}  // namespace trireme::net
