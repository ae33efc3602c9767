#include "launch/companion.h"

#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFromBinToHelpers = "../libexec/trireme";  // as in cmake/install.cmake

/// Where `name` may lie for the programs in `folder`, best first.
std::vector<fs::path> places(const fs::path& folder, const std::string& name) {
  return {folder / name, (folder / kFromBinToHelpers / name).lexically_normal()};
}

/// The folders of `search` that have the command itself.
std::vector<fs::path> folders_with_command(const std::string& search) {
  std::vector<fs::path> found;
  std::istringstream folders(search);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty() || !fs::exists(fs::path(folder) / "trireme")) continue;
    found.push_back(fs::canonical(fs::path(folder) / "trireme").parent_path());
  }
  return found;
}

}  // namespace

std::string companion_program(const fs::path& folder, const std::string& name, const std::string& search) {
  const std::vector<fs::path> near = places(folder, name);
  std::vector<fs::path> candidates = near;
  for (const fs::path& other : folders_with_command(search)) {
    for (fs::path& place : places(other, name)) candidates.push_back(std::move(place));
  }
  for (const fs::path& candidate : candidates) {
    if (fs::exists(candidate)) return candidate.string();
  }
  fail<InvalidArgument>(
      "there is neither {} nor {}, nor a trireme in PATH that has it: install Trireme, or build it with LibTorch, "
      "which "
      "makes all of its programs",
      near[0].string(), near[1].string());
}

std::string companion_program(const std::string& name) {
  const char* const search = std::getenv("PATH");
  return companion_program(fs::read_symlink("/proc/self/exe").parent_path(), name, search == nullptr ? "" : search);
}

}  // namespace trireme::launch
