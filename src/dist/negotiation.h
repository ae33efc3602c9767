#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/spec.h"
#include "collective/communicator.h"

namespace trireme::dist {

/// What a rank is about to do, as it tells the others before it does it. Plain bytes: it goes over the wire.
struct OpRequest {
  enum class Kind : std::uint8_t { kJoined, kBarrier, kAllReduce, kAllGather, kBroadcast, kAllToAll, kDeviceSum };

  Kind kind = Kind::kBarrier;
  DType dtype = DType::kU8;
  collective::ReduceOp op = collective::ReduceOp::kSum;
  codec::Kind codec = codec::Kind::kNone;  ///< all_reduce: in which form the values travel
  double ratio = 0;                        ///< of that codec
  Rank root = 0;
  std::uint64_t count = 0;          ///< all_reduce: elements; else rows of this rank
  std::uint64_t piece = 0;          ///< all_reduce: it comes in pieces of so many elements; 0 = as one
  std::uint64_t row_bytes = 0;      ///< of each row, where there are rows
  std::uint64_t calls = 0;          ///< what this rank has announced since the last time that all had joined
  std::array<char, 48> label = {};  ///< the name that the user gave it, as much of it as fits

  bool joined() const { return kind == Kind::kJoined; }
};
static_assert(std::is_trivially_copyable_v<OpRequest>);

/// "all_reduce average of 10 F32 'loss'"
std::string describe(const OpRequest& request);

/// What two of the ranks that have not joined want and do not agree on; empty if all agree.
std::string disagreement(std::span<const OpRequest> all);

/// Before each operation every rank hears what the others are about to do. So ranks of which some have no work left can
/// go on together: these answer for nobody (`join`) until all are through, and those that do contribute know how many
/// they are. Used by one thread.
class Negotiation {
 public:
  /// `ranks` outlives this object.
  explicit Negotiation(collective::Communicator& ranks) : ranks_(ranks) {}

  /// A negotiation on its way, or over.
  class Outcome {
   public:
    /// How many ranks do what was announced; the others have joined. Waits for the round. Throws InvalidArgument if the
    /// ranks do not agree, else as Communicator::run does.
    std::uint32_t contributors();

    /// What all ranks announced. Waits and throws likewise.
    const std::vector<OpRequest>& all();

   private:
    friend class Negotiation;
    struct State;
    std::shared_ptr<State> state_;
  };

  /// Tells the others, returns when all have spoken. A collective call, as all below.
  Outcome negotiate(OpRequest mine, const std::string& name);

  /// Returns at once: the operation can be started right behind it.
  Outcome start(OpRequest mine, const std::string& name);

  /// Takes part in what the others do without contributing to it, until all have joined. The rank that did so last (the
  /// highest of several): its state is the one to go on from. Throws as Communicator::run does.
  Rank join();

  /// What `join` does where the others sum what lies in the memory of GPUs: takes part with zeros. Null: they do not.
  void set_device_sum(std::function<void()> take_part) { device_sum_ = std::move(take_part); }

  /// How many rounds there were: the same on all ranks.
  std::uint64_t rounds() const { return rounds_; }

  collective::Communicator& ranks() { return ranks_; }

 private:
  Outcome begin(OpRequest mine, const std::string& name, bool in_background);
  void contribute_identity(const std::vector<OpRequest>& all, const OpRequest& theirs);
  void contribute_identity_to_all_reduce(const OpRequest& theirs);

  collective::Communicator& ranks_;
  std::uint64_t rounds_ = 0;
  std::uint64_t calls_ = 0;
  std::function<void()> device_sum_;
  std::vector<std::shared_ptr<Outcome::State>> on_their_way_;  // perhaps with nobody who waits for them
};

/// How many rows each rank sends to each: `[from * size + to]`. Part of an all_to_all. A collective call.
std::vector<std::size_t> gather_row_counts(collective::Communicator& ranks, const std::vector<std::size_t>& to_each);

}  // namespace trireme::dist
