#pragma once

#include <sys/types.h>

#include <cstddef>

namespace trireme::chaos {

/// Cuts all TCP connections of a process, as a router that loses its table would: both ends get an error at their next
/// use. The kernel does it (SOCK_DESTROY), so to the process it looks like a real failure. Connections within the
/// machine that are not TCP (Unix sockets, shared memory) stay. Returns how many were cut. Throws IoError if this
/// process lacks the permission (it takes CAP_NET_ADMIN, and CONFIG_INET_DIAG_DESTROY in the kernel).
std::size_t cut_connections(pid_t pid);

/// Throws IoError as `cut_connections` would, without cutting anything.
void check_cutting_is_possible();

}  // namespace trireme::chaos
