#pragma once

#include <cstdlib>

namespace trireme {

/// True where tests are to take every combination (`make test-all`), not only a choice that covers each value.
inline bool exhaustive() { return std::getenv("TRIREME_TEST_ALL") != nullptr; }

}  // namespace trireme
