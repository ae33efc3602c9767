#pragma once

#include <functional>
#include <optional>
#include <string>

#include "net/address.h"

namespace trireme::cluster {

/// Under this key of a job's store the master in charge leaves its address, as JSON; under the other, its job.
inline constexpr const char* kAddressKey = "address";
inline constexpr const char* kJobKey = "job";

/// Asks the store at `location` where the master is; nothing = nobody leads. Thread-safe; throws as Store does. An
/// empty location gives an empty function: the master cannot be replaced.
std::function<std::optional<net::Address>()> make_master_finder(const std::string& location);

}  // namespace trireme::cluster
