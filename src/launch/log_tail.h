#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme::launch {

/// Returns the last `lines` lines of a child's log, without the final newline, for an error message: what a process
/// printed before it died says more than its status. Reads at most the last 64 KiB. Returns an empty string if there is
/// nothing to read: a message about one failure must not fail for another reason.
std::string tail_of_log(const std::filesystem::path& path, std::size_t lines);

}  // namespace trireme::launch
