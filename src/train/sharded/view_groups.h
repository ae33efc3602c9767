#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "train/sharded/fit_mesh.h"
#include "train/sharded/shard_groups.h"

namespace trireme {

/// The workers of a view as a strategy that divides the state sees them: everybody; those that have the same part of
/// the model (the dimension data); of these the ones that divide its state among them, and the ones that have the same
/// slice of it.
class ViewGroups {
 public:
  struct Options {
    plan::Mesh mesh;                    ///< that is wanted
    bool divides_model = false;         ///< else the mesh has the dimension data alone, with all workers in it
    std::uint32_t shards = 0;           ///< that are wanted, see make_shard_groups
    bool gathers = false;               ///< layers are gathered while gradients are summed, in another order
    Lane lanes = 1;                     ///< of the whole job
    std::vector<LaneRange> dealt = {};  ///< by worker, where the dimension data is all workers
  };

  /// A collective call of all of `world`, which outlives this. Throws PeerLost, Timeout.
  ViewGroups(collective::Communicator& world, const Options& options);

  collective::Communicator& world() const { return world_; }
  collective::Communicator* data() const { return data_; }      ///< null: alone with its part of the model, or spare
  collective::Communicator* within() const { return within_; }  ///< the shard group; null: alone
  collective::Communicator* across() const { return across_; }  ///< one of each shard group; null: there is one
  collective::Communicator* gathers() const { return gathers_ ? gathers_.get() : within_; }

  const FittedMesh& mesh() const { return mesh_; }
  bool spare() const { return !at_.has_value(); }
  std::uint32_t shards() const { return shards_; }
  Rank shard() const { return data_rank() % shards_; }
  std::uint32_t group() const { return data_rank() / shards_; }

  /// The lanes of each worker, by rank in the world; and of each in the dimension data.
  const std::vector<LaneRange>& lanes() const { return lanes_; }
  const std::vector<LaneRange>& data_lanes() const { return data_lanes_; }
  const std::vector<LaneRange>& within_lanes() const { return within_lanes_; }
  const std::vector<LaneRange>& across_lanes() const { return across_lanes_; }

  const std::vector<std::string>& remarks() const { return remarks_; }  ///< what is not as it was asked for

  void abort(const std::string& reason) const;
  std::uint64_t wire_bytes() const;

 private:
  std::uint32_t data_rank() const { return at_ ? at_->data : 0; }

  collective::Communicator& world_;
  FittedMesh mesh_;
  std::optional<plan::Coordinates> at_;
  std::uint32_t shards_ = 1;
  std::vector<LaneRange> lanes_, data_lanes_, within_lanes_, across_lanes_;
  std::unique_ptr<collective::Communicator> own_data_, own_within_, own_across_, gathers_;
  collective::Communicator* data_ = nullptr;
  collective::Communicator* within_ = nullptr;
  collective::Communicator* across_ = nullptr;
  std::vector<std::string> remarks_;
};

}  // namespace trireme
