#pragma once

#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "trireme/dataset.h"
#include "trireme/error.h"

namespace trireme::data {

/// Why a place could not be read.
struct MirrorFailure {
  bool corrupt = false;
  std::string reason = {};  ///< names the file
};

void warn_of_last(const Mirrors& mirrors,
                  const std::vector<MirrorFailure>& failures);  ///< unless no place is left to try
[[noreturn]] void give_up(const std::vector<MirrorFailure>& failures);

/// `read(place)` of the first place where it works; the places behind it are not touched.
///
/// A place fails by IoError or Corrupt: missing, unreadable, damaged. A warning then tells why, and which is next. If
/// all fail: a single place's own error; else one that lists each place's reason, Corrupt if a file was there but
/// damaged, IoError if none could be read. Whatever else `read` throws is not the place's fault and comes out at
/// once.
template <typename Read>
auto read_any(const Mirrors& mirrors, const Read& read) {
  using Result = std::invoke_result_t<const Read&, const std::filesystem::path&>;
  std::vector<MirrorFailure> failures;
  for (const std::filesystem::path& place : mirrors.places()) {
    try {
      return Result(read(place));
    } catch (const IoError& problem) {
      failures.push_back({.corrupt = false, .reason = problem.what()});
    } catch (const Corrupt& problem) {
      failures.push_back({.corrupt = true, .reason = problem.what()});
    }
    warn_of_last(mirrors, failures);
  }
  give_up(failures);
}

}  // namespace trireme::data
