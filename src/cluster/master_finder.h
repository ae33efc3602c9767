#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "net/address.h"

namespace trireme::cluster {

/// Keys in a job's store: the current master's address, as JSON; the state of its job; the leases of asynchronous work.
inline constexpr const char* kAddressKey = "address";
inline constexpr const char* kJobKey = "job";
inline constexpr const char* kLeasesKey = "leases";

/// Returns a function that asks the store at `location` where the master is; nullopt = there is no leader. Thread-safe;
/// throws as Store does, and Corrupt if what is stored there is no address. Returns an empty function for an empty
/// location: the master cannot be replaced.
std::function<std::optional<net::Address>()> make_master_finder(const std::string& location);

/// Returns how long a process goes on while no master is to be found: TRIREME_WITHOUT_MASTER, in seconds; ten minutes
/// unless set. Throws InvalidArgument if it is no whole number from 1 on.
std::chrono::seconds without_master_within(const std::function<const char*(const char* name)>& lookup);
std::chrono::seconds without_master_within();  ///< from this process's environment

}  // namespace trireme::cluster
