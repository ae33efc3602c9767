#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme::launch {

/// Returns the last `lines` lines of a child's log, without the final newline, for an error message: what a process
/// printed before it died says more than its status. Reads at most the last 64 KiB. Returns an empty string if there is
/// nothing to read: a message about one failure must not fail for another reason. The first `from` bytes are left out:
/// an earlier launch wrote them.
std::string tail_of_log(const std::filesystem::path& path, std::size_t lines, std::uintmax_t from = 0);

/// Returns why a process gave up, as far as the last ten lines of its log tell: the last one that is a warning or an
/// error of ours, or begins as programs complain ("name: ...", "terminate called", "  what(): "). Standard output goes
/// to the same file, is written when the process ends, and so often comes last. Without such a line, the last one.
std::string last_complaint(const std::filesystem::path& path, const std::string& program);

}  // namespace trireme::launch
