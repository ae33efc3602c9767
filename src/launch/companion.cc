#include "launch/companion.h"

#include "base/error.h"

namespace trireme::launch {
namespace {

constexpr const char* kFromBinToHelpers = "../libexec/trireme";  // as in cmake/install.cmake

}  // namespace

std::string companion_program(const std::filesystem::path& folder, const std::string& name) {
  const auto beside = folder / name;
  if (std::filesystem::exists(beside)) return beside.string();
  const auto helper = (folder / kFromBinToHelpers / name).lexically_normal();
  if (std::filesystem::exists(helper)) return helper.string();
  fail<InvalidArgument>("there is neither {} nor {}: build Trireme with LibTorch, which makes all of its programs",
                        beside.string(), helper.string());
}

std::string companion_program(const std::string& name) {
  return companion_program(std::filesystem::read_symlink("/proc/self/exe").parent_path(), name);
}

}  // namespace trireme::launch
