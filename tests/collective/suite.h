#pragma once

#include <vector>

#include "collective/communicator.h"
#include "tests/collective/reference.h"

namespace trireme::collective {

/// How much of the matrix is walked through. In every case each collective meets each type, each way to reduce and each
/// size.
struct Scope {
  enum class Large {
    kAll,  ///< all combinations with 3 MiB
    kFew,  ///< 3 MiB with few types and ways to reduce
  };

  Large large = Large::kAll;
  std::vector<DType> types = all_types();  ///< those that the backend has
  bool any_order = false;                  ///< sums of floating-point numbers may differ from the reference by rounding
};

/// Carries out every collective with every type, way to reduce and size {0, 1, odd, a page less and more one element,
/// 3 MiB and one element}, in place and out of place, aligned and not, with equal and uneven parts, with every root,
/// and compares with a serial reference. All ranks of any backend call it together, each on a thread or in a process of
/// its own. Failures are failures of the test; it goes on after them.
void check_everything(Communicator& ranks, const Scope& scope = {});

}  // namespace trireme::collective
