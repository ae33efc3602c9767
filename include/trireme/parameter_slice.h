#pragma once

#include <cstdint>

namespace trireme {

/// The part of a parameter that is here, where a layer is divided: `begin` to `end` of `whole` along `dim`. Where
/// several equal matrices stand one after the other along `dim` (query, key and value in one parameter), `whole` is one
/// of the `pieces`, and the part of each is here.
struct ParameterSlice {
  std::int64_t dim = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t whole = 0;
  std::int64_t pieces = 1;

  bool operator==(const ParameterSlice&) const = default;
};

}  // namespace trireme
