#pragma once

#include <map>
#include <memory>

#include "collective/backend.h"
#include "collective/choice.h"
#include "collective/messages.h"
#include "collective/native/mesh.h"
#include "collective/rank_group.h"
#include "net/shm/shm_channel.h"

namespace trireme::collective {

/// Trireme's own engine: shared memory within a host, TCP or TLS between hosts.
class NativeBackend final : public Backend {
 public:
  /// Connects; throws as Mesh does.
  NativeBackend(Endpoint& endpoint, MeshOptions options, bool trace_algorithms);

  Rank rank() const override { return mesh_.rank(); }
  std::uint32_t size() const override { return mesh_.size(); }
  std::string transport() const override { return mesh_.transport(); }
  void run(const Operation& operation, Deadline deadline) override;
  void post(const Operation& operation, Deadline deadline, Done done) override;
  bool progress() override;
  void wake() override;
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Deadline deadline) override;
  void abort(const std::string& reason) override;
  std::vector<Rank> behind() const override;
  Traffic traffic() const override;

 private:
  /// What the ranks have shown each other at the start of a collective.
  struct CallRecords {
    std::uint32_t round = 0;                       ///< of this host's ranks
    std::vector<CallSignature> calls;              ///< by rank
    std::vector<std::vector<std::byte>> trailers;  ///< by rank; what came with the calls over the network
    std::vector<std::uint64_t> parts;              ///< of an all_to_all: see agree_on_parts
  };

  void collect_calls(const Operation& operation, const OpContext& context);
  Bytes make_trailer(const Operation& operation);
  void compare(const Operation& operation, CallRecords& records);
  void check_trailers(const Operation& operation, const CallRecords& records) const;
  std::span<const std::uint64_t> parts_shown_by(Rank peer, const CallRecords& records);
  bool one_shot(const Operation& operation) const;
  RankGroup everybody(const Operation& operation, const OpContext& context);
  void move(const Operation& operation, const OpContext& context, const CallRecords& records);
  void all_reduce(const Operation& operation, const OpContext& context, const CallRecords& records);
  void move_locally(const Operation& operation, const OpContext& context, const CallRecords& records);
  void move_anywhere(const Operation& operation, const OpContext& context, const CallRecords& records);
  void trace(const Operation& operation, std::size_t bytes, const Choice& choice);

  Mesh mesh_;
  Messages messages_;
  Topology topology_;
  bool trace_algorithms_;
  std::map<std::size_t, Algorithm> traced_;  // by size rounded to a power of two: the choice last logged
  std::uint64_t collectives_ = 0;
  std::atomic<std::uint64_t> operations_{0};
  std::vector<std::byte> trailer_;
  std::atomic<bool> woken_{false};  // since `progress` last looked
  net::Doorbell doorbell_;          // for a `progress` that waits for sockets
  CallRecords records_;             // of the collective in progress; kept to reuse its memory
};

}  // namespace trireme::collective
