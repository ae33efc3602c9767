#pragma once

#include <filesystem>

#include "checkpoint/safetensors/convert.h"

namespace trireme::cli {

// What `trireme ckpt export` and `import` print at the end, whichever program did the work.

void tell_exported(const std::filesystem::path& file, Step step, const checkpoint::ConversionReport& report);
void tell_imported(const std::filesystem::path& checkpoints, const checkpoint::ConversionReport& report);

}  // namespace trireme::cli
