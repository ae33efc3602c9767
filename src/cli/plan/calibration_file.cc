#include "cli/plan/calibration_file.h"

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace trireme::cli {

std::filesystem::path usual_calibration_file() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache == '/') {
    folder = cache;
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".cache";
  }
  return folder.empty() ? folder : folder / "trireme" / "calibration.json";
}

std::shared_ptr<const plan::Calibration> find_calibration(const std::string& file) {
  const std::filesystem::path path = file.empty() ? usual_calibration_file() : std::filesystem::path(file);
  if (file.empty() && (path.empty() || !std::filesystem::exists(path))) return nullptr;
  try {
    return std::make_shared<const plan::Calibration>(plan::parse_calibration(read_file(path.string())));
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("{}: {}", path.string(), problem.what());
  }
}

}  // namespace trireme::cli
