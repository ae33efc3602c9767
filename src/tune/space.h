#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme::tune {

/// A flag of a training, as the space sees it.
struct KnownFlag {
  std::string name = {};     ///< without dashes: "lr"
  bool whole = false;        ///< takes whole numbers only
  bool number = false;       ///< takes numbers: can have a range
  std::string refused = {};  ///< why trials cannot differ in it; empty = they can
};

/// One flag in which trials differ, and its values.
struct Dimension {
  enum class Kind { kChoice, kLinear, kLog };

  std::string flag = {};
  Kind kind = Kind::kChoice;
  std::vector<std::string> choices = {};  ///< of kChoice
  double low = 0;                         ///< of the others
  double high = 0;
  std::uint32_t points = 0;  ///< as many values, evenly from low to high; 0 = any value between them
  bool whole = false;

  /// Returns the value at `share` of the way from the first to the last, 0 to 1; numbers with four digits.
  std::string at(double share) const;

  /// Returns how many values there are; 0 = any number.
  std::uint64_t size() const { return kind == Kind::kChoice ? choices.size() : points; }

  /// Returns the value of index `i` of `count` that are evenly spread; of a choice, `count` is ignored.
  std::string value(std::uint64_t i, std::uint64_t count) const;
};

/// What a trial sets: flag and value, in the order of the space.
using Values = std::vector<std::pair<std::string, std::string>>;

/// Flags and the values that trials try: all combinations of them.
struct Space {
  std::vector<Dimension> dimensions = {};

  /// Returns how many combinations there are; 0 = any number.
  std::uint64_t size() const;
};

/// Reads "lr=log:1e-4:1e-1,batch=32|64": each flag with choices (a|b|c), or a range (linear:0:0.5, log:1e-4:1e-1), with
/// a number of values if it should have no others (log:1e-4:1e-1:7). Several texts are joined. Throws InvalidArgument
/// that shows what is wrong and what is allowed: a flag that is not in `flags`, or twice, or one that is refused.
Space parse_space(const std::vector<std::string>& texts, const std::vector<KnownFlag>& flags);

/// Returns all combinations, the last flag's values changing first. A range without a number of values gets as many as
/// possible with at most `most` combinations in all. Throws InvalidArgument if even the fewest are more than `most`.
std::vector<Values> grid(const Space& space, std::uint64_t most);

/// Returns `count` combinations, decided by `seed`: all of them, in random order, if there are not more; else those of
/// a Latin hypercube, in which the values of each flag are spread evenly over the trials.
std::vector<Values> sample(const Space& space, std::uint64_t count, std::uint64_t seed);

}  // namespace trireme::tune
