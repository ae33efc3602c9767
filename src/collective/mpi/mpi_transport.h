#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/deadline.h"
#include "trireme/types.h"

#include "base/bytes.h"
#include "base/mutex.h"
#include "collective/native/mesh.h"

namespace trireme::collective {

/// MPI requests that were started together.
struct Requests {
  std::vector<MPI_Request> open;
  std::vector<Rank> peers;             ///< the peer of each; empty = all ranks
  std::shared_ptr<const void> memory;  ///< what they read and write, if it is ours; nullptr: it is the caller's
};

/// Distinguishes kinds of messages between two ranks.
enum class MpiTag : int { kPushPull = 1, kOffer, kAnswer, kMessage };

/// The connection to all other ranks: MPI's calls with deadlines, for any number of bytes. Not thread-safe, except for
/// `abort` and `sent_bytes`.
class MpiTransport {
 public:
  /// See make_mpi_backend.
  explicit MpiTransport(Deadline deadline);

  Rank rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  MPI_Comm all() const { return all_; }

  /// Start to move `bytes`, in as many pieces as MPI's counts require. `synchronous`: the send ends only when it has
  /// been received.
  void send(Requests& requests, Rank peer, MpiTag tag, Bytes bytes, bool synchronous = false);
  void recv(Requests& requests, Rank peer, MpiTag tag, MutableBytes bytes);

  /// Returns whether all have ended. Does not wait.
  bool test(Requests& requests) const;

  /// Waits for all of them. Throws PeerLost, Timeout, after abandoning them (see `abandon`).
  void wait(Requests& requests, const OpContext& context);

  /// Carries out all transfers. Throws like `wait`.
  void exchange(std::span<const Transfer> transfers, const OpContext& context);

  /// Gives up requests that may never end. Keeps their memory, if it is ours, until they do; if it is the caller's, MPI
  /// is called no more than necessary, so that it does not touch it.
  static void abandon(Requests& requests);

  /// Sets a function that is called in every wait, to advance other operations.
  void set_side_work(std::function<void()> work) { side_work_ = std::move(work); }

  void abort(const std::string& reason);
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  [[noreturn]] void throw_aborted(const std::string& what) const;

  void count_sent(std::size_t bytes) { sent_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  std::uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }

  /// Throws PeerLost with MPI's error text if `code` is an error.
  static void check(int code, const char* what);

 private:
  MPI_Comm all_ = MPI_COMM_NULL;
  Rank rank_ = 0;
  std::uint32_t size_ = 1;
  std::function<void()> side_work_;
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::atomic<bool> aborted_{false};
  mutable Mutex mutex_;
  std::string reason_ TRIREME_GUARDED_BY(mutex_);  // why it was aborted
};

/// The most bytes passed to one MPI call, whose counts are ints.
inline constexpr std::size_t kMpiPieceBytes = std::size_t{1} << 30;

}  // namespace trireme::collective
