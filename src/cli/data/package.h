#pragma once

#include <filesystem>
#include <string>

namespace trireme::cli {

/// Who publishes a package.
enum class PackageManager { kDebian, kNpm };

/// A package that was fetched.
struct Package {
  std::string name = {};
  std::string version = {};
  std::string licence = {};                 ///< as the package itself says
  std::filesystem::path licence_file = {};  ///< where it says so
  std::filesystem::path content = {};       ///< the folder it is unpacked in
};

/// Downloads a package with the system's own `apt-get`, or with `npm`, and unpacks it below `folder`; needs no root and
/// installs nothing. `what` is the package, with `@version` if one of npm is meant. Throws IoError that says what is
/// missing or what the program printed.
Package fetch_package(PackageManager manager, const std::string& what, const std::filesystem::path& folder);

}  // namespace trireme::cli
