#pragma once

#include <functional>
#include <memory>

#include <torch/autograd.h>
#include <torch/types.h>

namespace trireme {

/// Calls `run` each time a backward pass has added to `leaf.grad()`, from the thread that does it. At that moment the
/// pass needs `leaf` no more: all its uses have been differentiated. What `run` throws comes out of backward.
///
/// The hook belongs to the node that is returned, which a tensor holds weakly: keep it as long as the hook is wanted.
/// Torch may keep it longer, so `run` must bear being called late. Aborts unless `leaf` is one that requires gradients.
std::shared_ptr<torch::autograd::Node> after_accumulation(const torch::Tensor& leaf, std::function<void()> run);

}  // namespace trireme
