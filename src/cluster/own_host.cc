#include "cluster/own_host.h"

#include <thread>

#include "base/error.h"

namespace trireme::cluster {
namespace {

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

/// Returns the route to the master, also to one that is not up yet.
net::Route await_route(const JobEnvironment& place, const std::function<std::optional<net::Address>()>& find_master,
                       Deadline deadline) {
  std::string problem = "the store names no master";
  for (;;) {
    try {
      const auto master = place.master.port != 0 ? std::optional(place.master) : find_master();
      if (master) return net::route_to(*master);
    } catch (const Error& failed) {
      problem = failed.what();
    }
    if (deadline.passed()) {
      fail<Timeout>("found no way to the master within {:.0f} s: {}", seconds(deadline.allowed()), problem);
    }
    std::this_thread::sleep_for(20ms);
  }
}

}  // namespace

OwnHost choose_own_host(const std::string& listen, const net::Route& route) {
  if (listen.empty()) return {.listen = route.from, .advertise = route.from};
  if (is_any(listen)) return {.listen = listen, .advertise = route.from};
  if (net::is_loopback(listen) && !route.stays_here()) {
    fail<InvalidArgument>(
        "this process is to listen on {}, but the master is on another host, {}: processes there would look for it on "
        "their own host; name an address that they can reach, such as {}, or none (TRIREME_LISTEN, --listen)",
        listen, route.to, route.from);
  }
  return {.listen = listen, .advertise = listen};
}

OwnHost find_own_host(const JobEnvironment& place, const std::function<std::optional<net::Address>()>& find_master,
                      Deadline deadline) {
  const bool has_master = place.master.port != 0 || find_master;
  if (!has_master && place.listen.host.empty()) return {.listen = "127.0.0.1", .advertise = "127.0.0.1"};
  if (!has_master || place.hosts_master) return {.listen = place.listen.host, .advertise = place.listen.host};
  return choose_own_host(place.listen.host, await_route(place, find_master, deadline));
}

}  // namespace trireme::cluster
