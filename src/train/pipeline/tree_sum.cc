#include "train/pipeline/tree_sum.h"

#include <utility>

#include "base/error.h"
#include "base/numbers/lanes.h"

namespace trireme::parallel {
namespace {

void grow(LaneTree& tree, std::size_t node, Lane lane, Lane count) {
  if (count == 1) {
    tree.leaves[lane] = node;
    return;
  }
  const std::size_t left = tree.nodes.size();
  tree.nodes.push_back({.parent = node, .sibling = left + 1, .left = true, .first = tree.nodes[node].first});
  tree.nodes.push_back({.parent = node, .sibling = left});
  const Lane half = left_lanes(count);
  grow(tree, left, lane, half);
  grow(tree, left + 1, lane + half, count - half);
}

/// left + right, in one of the two; zeros are added too, since they make -0 positive.
torch::Tensor merged(torch::Tensor left, torch::Tensor right) {
  if (!left.defined()) std::swap(left, right);
  if (!left.defined()) return left;
  return right.defined() ? left.add_(right) : left.add_(0);
}

}  // namespace

LaneTree::LaneTree(Lane lanes) : leaves(lanes) {
  TRIREME_CHECK(lanes > 0);
  nodes.push_back({.first = true});
  grow(*this, 0, 0, lanes);
}

bool TreeSum::add(Lane lane, torch::Tensor value, const torch::Tensor& sum) {
  const torch::NoGradGuard no_grad;
  std::size_t node = tree_->leaves.at(lane);
  if (tree_->nodes[node].first) {
    torch::Tensor to = sum;
    if (value.defined()) {
      to.copy_(value.view(to.sizes()));
    } else {
      to.zero_();
    }
    value = to;
  } else if (value.defined()) {
    value = value.view(sum.sizes());
  }
  while (node != 0) {
    const LaneTree::Node& here = tree_->nodes[node];
    Partial& other = partial_[here.sibling];
    if (!other.here) {
      partial_[node] = {true, std::move(value)};
      return false;
    }
    torch::Tensor there = std::exchange(other, {}).value;
    value = here.left ? merged(std::move(value), std::move(there)) : merged(std::move(there), std::move(value));
    node = here.parent;
  }
  return true;
}

}  // namespace trireme::parallel
