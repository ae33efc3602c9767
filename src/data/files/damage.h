#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/open.h"

namespace trireme::data {

/// What a pass over all of the data found.
struct DamageReport {
  std::uint64_t samples = 0;  ///< that could be read
  std::uint64_t damaged = 0;
};

/// Opens what `spec` names and reads all of it, going on behind whatever is damaged; `tell` gets one line for each,
/// with file and place. Where damage hides what follows (a length in a TFRecord file, the header of a tar), that is
/// one. Throws InvalidArgument if there is no such data.
DamageReport find_damage(const std::string& spec, const OpenOptions& options,
                         const std::function<void(const std::string&)>& tell);

}  // namespace trireme::data
