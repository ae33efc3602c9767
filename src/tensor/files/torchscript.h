#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trireme/model.h"

namespace trireme {

/// Returns whether `model` came from load_torchscript.
bool is_torchscript(const Model& model);

/// Loads the network in `file` and lets it look at two empty samples. Throws InvalidArgument, naming the field, if its
/// forward does not take such samples, or gives other than `outputs` numbers for each (per token with task
/// language-model); 0 = any.
void try_torchscript(const std::filesystem::path& file, const data::Schema& samples, const std::string& task,
                     std::int64_t outputs);

}  // namespace trireme
