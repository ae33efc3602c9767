#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/deadline.h"

#include "cluster/environment.h"
#include "net/route.h"

namespace trireme::cluster {

/// Where a process listens for the others of its job, and the host that they are told.
struct OwnHost {
  std::string listen;
  std::string advertise;

  bool operator==(const OwnHost&) const = default;
};

/// Returns the host for a process that was told to listen at `listen` (empty = nothing was said) and reaches its master
/// by `route`: without a word, where that route begins, since from there others come as well. Throws InvalidArgument if
/// it was told to listen on loopback, which leads every other host to itself, and the master is on another host.
OwnHost choose_own_host(const std::string& listen, const net::Route& route);

/// The same for a process of a job, which may have to wait until the store names a master, or its name is known. Throws
/// also IoError, Timeout if there is no route to a master until the deadline. Without master and store: loopback.
OwnHost find_own_host(const JobEnvironment& place, const std::function<std::optional<net::Address>()>& find_master,
                      Deadline deadline);

}  // namespace trireme::cluster
