#pragma once

#include <string>

namespace trireme {

/// The secret of every job that a test makes inside its own process.
inline const std::string kSecret = "the secret of these tests";

}  // namespace trireme
