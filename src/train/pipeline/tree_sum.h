#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

#include "trireme/types.h"

namespace trireme::parallel {

/// The summation tree over a number of lanes (base/numbers/lanes.h), as nodes that know their neighbours.
struct LaneTree {
  struct Node {
    std::size_t parent = 0;
    std::size_t sibling = 0;
    bool left = false;   ///< child of its parent
    bool first = false;  ///< begins with lane 0
  };

  explicit LaneTree(Lane lanes);

  std::vector<Node> nodes;          ///< the root is the first
  std::vector<std::size_t> leaves;  ///< by lane
};

/// Adds one tensor over lanes along the tree, whatever the order in which they come: the bits are those of lanes that
/// come in order. Holds as many partial sums as the order makes necessary, at most one per two lanes.
class TreeSum {
 public:
  explicit TreeSum(std::shared_ptr<const LaneTree> tree) : tree_(std::move(tree)), partial_(tree_->nodes.size()) {}

  /// Adds `value` of `lane`, of each lane once: a contiguous float32 tensor on the host, which may be changed or kept;
  /// undefined: zeros. `sum` is where the sum goes, and parts of it meanwhile; the same in all calls. Returns whether
  /// it is complete.
  bool add(Lane lane, torch::Tensor value, const torch::Tensor& sum);

 private:
  struct Partial {
    bool here = false;
    torch::Tensor value;
  };

  std::shared_ptr<const LaneTree> tree_;
  std::vector<Partial> partial_;  // by node
};

}  // namespace trireme::parallel
