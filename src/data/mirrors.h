#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme::data {

/// Places that hold the same file, or the same files, in the order in which they are tried. That they are the same is
/// the user's word: what is read from one is not compared with the others. Never empty; immutable.
class Mirrors {
 public:
  /// A single place, the usual case.
  template <std::convertible_to<std::filesystem::path> Path>
  Mirrors(Path only)  // NOLINT(google-explicit-constructor): a path is wanted wherever mirrors are
      : places_{std::filesystem::path(std::move(only))} {}

  /// From "a,b". A comma always separates: a path with a comma in it cannot be named so. Throws InvalidArgument if a
  /// part is empty.
  static Mirrors parse(std::string_view text);

  const std::vector<std::filesystem::path>& places() const { return places_; }

  /// The file `name` in each of these folders.
  Mirrors operator/(const std::filesystem::path& name) const;

  /// `read(place)` of the first place where it works; the places behind it are not touched.
  ///
  /// A place fails by IoError or Corrupt: missing, unreadable, damaged. A warning then tells why, and which is next. If
  /// all fail: a single place's own error; else one that lists each place's reason, Corrupt if a file was there but
  /// damaged, IoError if none could be read. Whatever else `read` throws is not the place's fault and comes out at
  /// once.
  template <typename Read>
  auto read_any(const Read& read) const {
    using Result = std::invoke_result_t<const Read&, const std::filesystem::path&>;
    std::vector<Failure> failures;
    for (const std::filesystem::path& place : places_) {
      try {
        return Result(read(place));
      } catch (const IoError& problem) {
        failures.push_back({.corrupt = false, .reason = problem.what()});
      } catch (const Corrupt& problem) {
        failures.push_back({.corrupt = true, .reason = problem.what()});
      }
      warn_of_last(failures);
    }
    give_up(failures);
  }

 private:
  struct Failure {
    bool corrupt = false;
    std::string reason = {};  ///< names the file
  };

  explicit Mirrors(std::vector<std::filesystem::path> places) : places_(std::move(places)) {}

  void warn_of_last(const std::vector<Failure>& failures) const;  ///< unless no place is left to try
  [[noreturn]] static void give_up(const std::vector<Failure>& failures);

  std::vector<std::filesystem::path> places_;
};

}  // namespace trireme::data
