#pragma once

#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "trireme/error.h"
#include "trireme/sources.h"

namespace trireme::data {

/// Why a mirror could not be read.
struct MirrorFailure {
  bool corrupt = false;
  std::string reason = {};  ///< names the file
};

void warn_of_last(const Mirrors& mirrors,
                  const std::vector<MirrorFailure>& failures);  ///< unless no mirror is left to try
[[noreturn]] void give_up(const std::vector<MirrorFailure>& failures);

/// Returns `read(place)` of the first mirror that works; later mirrors are not touched.
///
/// A mirror fails by IoError or Corrupt: missing, unreadable, damaged. A warning then says why, and which is next. If
/// all fail, throws the error of a single mirror, or one that lists the reason of each: Corrupt if a file was found but
/// damaged, IoError if none could be read. Any other exception of `read` is not the mirror's fault and propagates at
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
