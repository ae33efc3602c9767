#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trireme/optimizer.h"

#include "cuda/stream.h"
#include "optim/rule_math.h"

namespace trireme::cuda {

inline constexpr std::uint32_t kSliceElements = 16384;  ///< of a slice, at most

/// Neighbouring elements of one parameter with all that belongs to them; what it points to is memory of the device.
struct UpdateSlice {
  float* parameters;
  const float* gradient;
  std::array<float*, 4> state;  ///< as optim::StateArrays
  std::uint32_t count;
  std::uint32_t constants;  ///< which of the constants
};

struct UpdateKind {
  optim::Rule rule;
  int rule_arrays;    ///< of the state, that are the rule's own
  int average_array;  ///< -1: there is none
  int pruned_array;   ///< likewise
};

/// Updates all slices in one launch, on `stream`: the same bits as optim::apply_update. `slices` and `constants` are
/// memory of the device; `gradient_scale` takes the place of that in the constants. Throws IoError.
void update(const UpdateKind& kind, const UpdateSlice* slices, std::size_t count,
            const optim::UpdateConstants* constants, float gradient_scale, Stream stream);

}  // namespace trireme::cuda
