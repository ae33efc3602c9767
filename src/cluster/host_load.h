#pragma once

#include "cluster/protocol.h"

namespace trireme::cluster {

/// Returns what this process uses of its host, as the kernel says (/proc). What cannot be read is 0. Takes some 50 µs.
HostLoad host_load();

}  // namespace trireme::cluster
