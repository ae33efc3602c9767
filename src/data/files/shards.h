#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {

/// Returns the files that `patterns` name: each is a path or a glob pattern (`train-*-of-*`), whose files come in the
/// order of their names. Indexes that lie beside files (`*.index`) are not data and are left out. Throws
/// InvalidArgument if a pattern matches nothing.
std::vector<std::filesystem::path> expand(std::span<const std::string> patterns);

}  // namespace trireme::data
