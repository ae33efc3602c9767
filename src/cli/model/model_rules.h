#pragma once

#include <string>
#include <vector>

#include "trireme/schema.h"

namespace trireme::cli {

// What the launcher knows of the networks that come with Trireme without loading LibTorch: enough to refuse a training
// before anything starts.

/// In alphabetical order.
const std::vector<std::string>& known_models();

/// Returns the settings that can stand behind the name of a model, after a colon.
std::vector<std::string> model_settings(const std::string& model);

/// Throws InvalidArgument, naming the field and what fits, if `model` cannot take such samples.
void check_model_takes(const std::string& model, const data::Schema& samples);

}  // namespace trireme::cli
