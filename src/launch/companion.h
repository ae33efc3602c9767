#pragma once

#include <filesystem>
#include <string>

namespace trireme::launch {

/// Returns the path of another program of ours: beside this one, or, where Trireme is installed, in the folder of
/// programs that people do not start themselves (libexec/trireme). Throws InvalidArgument if it is in neither.
std::string companion_program(const std::string& name);

/// Does the same for a program that runs in `folder`.
std::string companion_program(const std::filesystem::path& folder, const std::string& name);

}  // namespace trireme::launch
