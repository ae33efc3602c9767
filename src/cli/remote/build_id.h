#pragma once

#include <string>

namespace trireme::cli {

/// Returns a hash of the file at `path`, followed through links; "missing" if it cannot be read.
std::string file_id(const std::string& path);

}  // namespace trireme::cli
