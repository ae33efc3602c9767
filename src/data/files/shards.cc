#include "data/files/shards.h"

#include <glob.h>

#include <algorithm>

#include "base/error.h"

namespace trireme::data {
namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> names;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::erase_if(names, [](const std::string& name) { return name.ends_with(".index"); });
  std::ranges::sort(names);  // not as glob does it, which depends on the language of the system
  return names;
}

}  // namespace

std::vector<std::filesystem::path> expand(std::span<const std::string> patterns) {
  std::vector<std::filesystem::path> files;
  for (const std::string& pattern : patterns) {
    if (pattern.find_first_of("*?[") == std::string::npos || std::filesystem::exists(pattern)) {
      files.emplace_back(pattern);
      continue;
    }
    const std::vector<std::string> names = matches(pattern);
    if (names.empty()) fail<InvalidArgument>("no file matches '{}'", pattern);
    files.insert(files.end(), names.begin(), names.end());
  }
  if (files.empty()) fail<InvalidArgument>("no file is named: give at least one");
  return files;
}

}  // namespace trireme::data
