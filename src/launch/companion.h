#pragma once

#include <filesystem>
#include <string>

namespace trireme::launch {

/// Returns the path of another program of ours: beside this one, or, where Trireme is installed, in the folder of
/// programs that people do not start themselves (libexec/trireme); for a program of the user's, which lies elsewhere,
/// beside the `trireme` that PATH finds, likewise. Throws InvalidArgument if it is in none of them.
std::string companion_program(const std::string& name);

/// Does the same for a program that runs in `folder`; `search` is what PATH says: "/usr/local/bin:/usr/bin".
std::string companion_program(const std::filesystem::path& folder, const std::string& name,
                              const std::string& search = "");

}  // namespace trireme::launch
