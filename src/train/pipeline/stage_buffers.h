#pragma once

#include <optional>
#include <span>
#include <vector>

#include "trireme/layers.h"

#include "train/pipeline/tree_sum.h"

namespace trireme::parallel {

/// The buffers of this rank's stages while it computes a step, as LaneBuffers (elastic/buffers.h) are those of a whole
/// module: every lane starts from what the step started from, and what the lanes make of float32 ones is added along
/// the tree. Here lanes come in any order, and go through one stage at a time.
class StageBuffers {
 public:
  /// `stages` are those of the whole network; `layers` must outlive this.
  StageBuffers(const MadeLayers& layers, const std::vector<LayerRange>& stages);

  /// `sums` is where the sums go, in the order of ModelBuffers; nullopt: buffers go from lane to lane as they are.
  void begin_step(std::optional<std::span<float>> sums, Lane lanes);

  /// Puts a stage's buffers back to what they were at the step's begin, if there are sums.
  void begin_lane(std::uint32_t stage);

  /// The lane's forward in this stage is done.
  void end_lane(std::uint32_t stage, Lane lane);

  /// The lane has no samples: it leaves the buffers of all stages as they were.
  void skip_lane(Lane lane);

  /// Leaves in the module, of what cannot be averaged, what the first lane made of it.
  void end_step();

  /// See LaneBuffers.
  void rewind();

  /// The values of a stage's buffers: for a second forward that must leave no trace.
  std::vector<torch::Tensor> copies(std::uint32_t stage) const;
  void put_back(std::uint32_t stage, const std::vector<torch::Tensor>& values);

 private:
  struct Buffer {
    torch::Tensor tensor;
    std::uint32_t stage = 0;
    bool mean = false;
    torch::Tensor begin = {};       // its value at the step's begin
    torch::Tensor first_lane = {};  // what is no mean: after lane 0
    torch::Tensor sum = {};         // means: where the sum goes
    std::optional<TreeSum> lanes = {};
  };

  void take(Buffer& buffer, Lane lane, const torch::Tensor& value);

  std::vector<Buffer> buffers_;
  bool summed_ = false;
};

}  // namespace trireme::parallel
