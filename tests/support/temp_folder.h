#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/random.h"

namespace trireme {

/// A new empty folder that is gone, with all in it, at the end of the test.
class TempFolder {
 public:
  TempFolder() { std::filesystem::create_directory(path_); }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file and tells its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + name);
    return path_ / name;
  }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  const std::filesystem::path path_ = std::filesystem::temp_directory_path() / ("trireme-test-" + random_hex(8));
};

}  // namespace trireme
