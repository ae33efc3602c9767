#pragma once

#include <string>

#include "net/address.h"

namespace trireme::net {

/// The way from this host to another, as its kernel would take it now. Numeric addresses.
struct Route {
  std::string from;  ///< the address of this host that the other one sees
  std::string to;

  /// Whether the other host is this one.
  bool stays_here() const { return from == to || is_loopback(to); }
};

/// Returns the route to `address`; sends nothing. Looks up a name, which takes as long as the system's resolver does.
/// Throws IoError if the name is unknown or there is no route.
Route route_to(const Address& address);

}  // namespace trireme::net
