#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "trireme/deadline.h"

#include "collective/call_signature.h"
#include "collective/native/byte_pipe.h"
#include "net/shm/segment.h"

namespace trireme::collective {

/// The ranks of one host and the memory they share. Here ranks are identified by their index on this host.
///
/// Each rank has one segment (a memfd, passed by descriptor; it disappears with the last process that maps it). It
/// holds a control page, staging buffers, and a ring for each other rank. Every word has one writer, except `sleeping`
/// and the doorbell.
class LocalGroup {
 public:
  static constexpr std::uint32_t kMaxRanks = 256;
  static constexpr std::size_t kStageBytes = 256u << 10;

  /// Exchanges segments with the other ranks of this host over their Unix sockets (`sockets[i]`; nullptr for itself).
  LocalGroup(std::uint32_t index, std::vector<std::unique_ptr<net::RawStream>> sockets, Deadline deadline);

  std::uint32_t index() const { return index_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(peers_.size()); }

  // Rounds. A rank writes what it has to show (calls, staging), then arrives; when all have arrived, each reads what
  // the others show. What was shown in round r may be overwritten in round r + 2: a rank that has reached r + 1 has
  // read everything of r.

  /// Returns the round that `arrive` will enter: write what is shown in it before.
  std::uint32_t next_round() const { return round_ + 1; }

  /// Enters the next round, and returns its number.
  std::uint32_t arrive();
  bool all_arrived(std::uint32_t round) const;

  /// Return what rank i shows in `round`.
  CallSignature& call(std::uint32_t i, std::uint32_t round);
  std::span<std::uint64_t> table(std::uint32_t i, std::uint32_t round);  ///< two numbers for each rank
  std::byte* stage(std::uint32_t i, std::uint32_t round);                ///< kStageBytes that others read
  std::byte* result(std::uint32_t i, std::uint32_t round);               ///< another kStageBytes

  // Sleeping. `ready` is checked after the others were told to ring.

  /// Sleeps until a peer rings or `limit` has passed; not at all if `ready()`.
  template <typename Ready>
  void sleep(Ready ready, std::chrono::milliseconds limit) {
    const std::uint32_t seen = prepare_sleep();
    if (!ready()) sleep_on_doorbell(seen, limit);
    end_sleep();
  }

  /// Wakes rank i if it sleeps: call it after a change that it may wait for.
  void ring(std::uint32_t i);

  enum class Use : std::uint8_t { kCollectives, kMessages };

  /// Returns a byte stream to and from rank i, through shared memory. The group must outlive it.
  std::unique_ptr<Pipe> make_pipe(std::uint32_t i, Use use);

  // Allocations visible to all ranks of this host.

  /// Creates this rank's part and maps those of the others; all ranks call it together. Throws Timeout, PeerLost, and
  /// what `check`, called in its waits, throws.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Deadline deadline, const std::function<void()>& check);

  /// Returns the allocation that holds [data, data + bytes), and the offset in it; {0, 0} = none.
  std::pair<std::uint64_t, std::uint64_t> locate(const std::byte* data, std::size_t bytes) const;

  /// Returns rank i's memory at that place, which rank i has named. Throws Corrupt if there is none.
  std::byte* at(std::uint32_t i, std::uint64_t allocation, std::uint64_t offset, std::size_t bytes) const;

 private:
  struct Allocation {
    std::weak_ptr<net::Segment> own;                      // the caller's: gone with its last user
    std::vector<std::shared_ptr<net::Segment>> segments;  // by index; ours is null
  };

  struct Control;
  struct RingHeader;
  class RingPipe;

  Control& control(std::uint32_t i) const;
  std::size_t ring_offset(std::uint32_t to, Use use) const;
  std::vector<std::shared_ptr<net::Segment>> exchange(std::uint64_t id, const std::shared_ptr<net::Segment>& own,
                                                      Deadline deadline, const std::function<void()>& check);
  std::uint32_t prepare_sleep();
  void sleep_on_doorbell(std::uint32_t seen, std::chrono::milliseconds limit);
  void end_sleep();

  std::uint32_t index_;
  std::vector<std::unique_ptr<net::RawStream>> sockets_;
  std::vector<std::shared_ptr<net::Segment>> peers_;  // by index, including our own
  std::uint32_t round_ = 0;
  std::uint64_t next_allocation_ = 1;
  std::map<std::uint64_t, Allocation> allocations_;  // by number, which is the same on all ranks
};

}  // namespace trireme::collective
