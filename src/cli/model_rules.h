#pragma once

#include <string>
#include <vector>

#include "trireme/schema.h"

namespace trireme::cli {

// What the launcher knows of the networks that come with Trireme without loading LibTorch: enough to refuse a training
// before anything starts.

/// In alphabetical order.
const std::vector<std::string>& known_models();

/// Throws InvalidArgument, naming the field and what fits, if `model` cannot take such samples.
void check_model_takes(const std::string& model, const data::Schema& samples);

}  // namespace trireme::cli
