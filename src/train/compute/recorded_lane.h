#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/task.h"

#include "base/numbers/lanes.h"
#include "data/prefetch.h"
#include "models/lane_seed.h"
#include "tensor/device/work_graph.h"

namespace trireme {

/// A part of a lane that was computed, and what is to be read of it once the GPU has all its work.
struct ComputedPart {
  Outcome outcome;
  SampleRange samples;
};

/// What a worker's lanes of a step do on a GPU, recorded lane by lane and replayed from then on: one call instead of
/// one for each kernel. A lane is computed a few times as usual first, in which algorithms are chosen; then it is
/// recorded, if shapes stay the same. Where something of it cannot be recorded it goes on as usual, and the log says
/// why.
class RecordedLanes {
 public:
  /// The lane of a step that is computed; lanes that are equal in all of this do the same work.
  struct Key {
    std::size_t position = 0;                       ///< in the order in which the worker computes them
    std::size_t lanes = 0;                          ///< of the worker
    std::vector<std::vector<std::int64_t>> shapes;  ///< by field
    std::size_t parts = 0;
    float loss_scale = 1;
    std::vector<const void*> memory;  ///< where parameters are, and gradients go: a recording has their addresses

    auto operator<=>(const Key&) const = default;
  };

  /// Computes the lane from `samples`, by part, and calls `ready` with each parameter whose gradient is complete.
  using Ready = std::function<void(std::size_t parameter)>;
  using Compute = std::function<std::vector<ComputedPart>(const std::vector<Batch>& samples, const Ready& ready)>;

  /// Work of `device` is recorded if `steady`: if what is computed does not depend on anything but parameters, buffers
  /// and samples.
  RecordedLanes(torch::Device device, bool steady);
  ~RecordedLanes();

  /// Computes a lane in one of these ways; `ranges` are its parts.
  std::vector<ComputedPart> compute(const Key& key, const data::Item& item, const std::vector<SampleRange>& ranges,
                                    const Compute& compute, const Ready& ready);

  bool on() const { return on_; }

 private:
  struct Lane;

  std::vector<Batch> to_device(const data::Item& item, const std::vector<SampleRange>& ranges) const;
  bool record(Lane& lane, const Compute& compute);
  void give_up(const std::string& reason);

  torch::Device device_;
  bool on_;
  std::vector<std::pair<Key, std::unique_ptr<Lane>>> lanes_;
};

}  // namespace trireme
