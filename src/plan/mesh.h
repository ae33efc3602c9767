#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/types.h"

namespace trireme::plan {

/// What the ranks of a mesh divide among themselves.
enum class Dimension : std::uint8_t {
  kData,    ///< the batch: each rank has other samples and the same parameters
  kPipe,    ///< the layers: each rank has a part of them, one after the other
  kTensor,  ///< the layers' matrices: each rank has a slice of every one
};

inline constexpr std::array kDimensions = {Dimension::kData, Dimension::kPipe, Dimension::kTensor};

/// "data", "pipe" or "tensor"; the text lives forever.
std::string_view name_of(Dimension dimension);

/// The most ranks that a mesh may have: beyond it a request is a slip of the keyboard.
inline constexpr std::uint64_t kMostRanks = 1u << 20;

/// How many parts each dimension is cut into; the ranks are all combinations of them.
struct Mesh {
  std::uint32_t data = 1;
  std::uint32_t pipe = 1;
  std::uint32_t tensor = 1;

  std::uint64_t ranks() const { return std::uint64_t{data} * pipe * tensor; }
  std::uint32_t size(Dimension dimension) const;
  bool operator==(const Mesh&) const = default;
};

/// Returns the mesh that `data=2,pipe=4,tensor=1` describes: dimensions in any order, one that is missing has one part.
/// Throws InvalidArgument, with what is wrong and an example, if a name is unknown or there twice, if a size is no
/// whole number from 1 on, or if it has more than kMostRanks ranks.
Mesh parse_mesh(std::string_view text);

/// The inverse: all three dimensions, in the order of kDimensions.
std::string to_text(const Mesh& mesh);

/// Where a rank is in the mesh: its part of each dimension, from 0.
struct Coordinates {
  std::uint32_t data = 0;
  std::uint32_t pipe = 0;
  std::uint32_t tensor = 0;

  std::uint32_t& along(Dimension dimension);
  bool operator==(const Coordinates&) const = default;
};

}  // namespace trireme::plan
