#pragma once

#include <map>
#include <memory>

#include "trireme/collective/backend.h"
#include "trireme/collective/choice.h"
#include "trireme/collective/mesh.h"
#include "trireme/collective/messages.h"
#include "trireme/collective/team.h"

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
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Deadline deadline) override;
  void abort(const std::string& reason) override;
  Traffic traffic() const override;

 private:
  /// What the ranks have shown each other at the start of a collective.
  struct Meeting {
    std::uint32_t round = 0;                       ///< of this host's ranks
    std::vector<Call> calls;                       ///< by rank
    std::vector<std::vector<std::byte>> trailers;  ///< by rank; what came with the calls over the network
    std::vector<std::uint64_t> parts;              ///< of an all_to_all: see agree_on_parts
  };

  void meet(const Operation& operation, const Doing& doing);
  Bytes make_trailer(const Operation& operation);
  void compare(const Operation& operation, Meeting& meeting);
  std::span<const std::uint64_t> parts_shown_by(Rank peer, const Meeting& meeting);
  bool one_shot(const Operation& operation) const;
  Team everybody(const Operation& operation, const Doing& doing);
  void move(const Operation& operation, const Doing& doing, const Meeting& meeting);
  void all_reduce(const Operation& operation, const Doing& doing, const Meeting& meeting);
  void move_locally(const Operation& operation, const Doing& doing, const Meeting& meeting);
  void move_anywhere(const Operation& operation, const Doing& doing, const Meeting& meeting);
  void trace(const Operation& operation, std::size_t bytes, const Choice& choice);

  Mesh mesh_;
  Messages messages_;
  Topology topology_;
  bool trace_algorithms_;
  std::map<std::size_t, Algorithm> traced_;  // by size rounded to a power of two: the choice told last
  std::uint64_t collectives_ = 0;
  std::atomic<std::uint64_t> operations_{0};
  std::vector<std::byte> trailer_;
  Meeting meeting_;  // of the collective in progress; kept for its memory
};

}  // namespace trireme::collective
