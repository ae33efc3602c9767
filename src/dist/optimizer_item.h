#pragma once

#include <functional>
#include <memory>
#include <string>

#include <torch/optim/optimizer.h>

#include "dist/state_items.h"

namespace trireme::dist {

/// The state of one of torch's optimizers, and its learning rates: "optimizer/<name of a parameter>/<array>", with the
/// names that `name_of` gives. The optimizer outlives it. Throws InvalidArgument for classes other than SGD, Adam,
/// AdamW, RMSprop and Adagrad.
std::unique_ptr<StateItem> optimizer_item(torch::optim::Optimizer& optimizer,
                                          std::function<std::string(const torch::Tensor& parameter)> name_of);

}  // namespace trireme::dist
