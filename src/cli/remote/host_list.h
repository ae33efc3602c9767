#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trireme::cli {

/// A host, as ssh knows it, and how many workers it takes.
struct HostSlots {
  std::string name;
  std::uint32_t slots = 1;

  bool operator==(const HostSlots&) const = default;
};

/// Parses "a:4,user@b:2,c"; c takes 1. An address of IPv6 is in brackets, "[fd00::1]:4", which are not part of the
/// name: ssh does not know them. Throws InvalidArgument that begins with `what` if a host is invalid or there twice.
std::vector<HostSlots> parse_hosts(const std::string& what, const std::string& text);

/// Parses lines of "a:4", "a slots=4" or "a"; '#' begins a comment. Throws likewise.
std::vector<HostSlots> parse_host_lines(const std::string& what, const std::string& text);

/// Which host has which slot of a role. A slot that is not in there has no host for now.
using SlotHosts = std::map<std::uint32_t, std::string>;

/// Returns where the first `count` workers are: as before where the host is still there and takes as many; the others,
/// in their order, where there is room. Worker 0, which writes the results, is never on a host of `without_folder`,
/// which does not see the run folder: it rather has none for now.
SlotHosts place_workers(const SlotHosts& before, const std::vector<HostSlots>& hosts, std::uint32_t count,
                        const std::set<std::string>& without_folder = {});

/// Returns where the servers are: as before where the host is still there, else spread over the hosts.
SlotHosts place_servers(const SlotHosts& before, const std::vector<HostSlots>& hosts, std::uint32_t count);

/// Returns how many workers the hosts take together.
std::uint32_t total_slots(const std::vector<HostSlots>& hosts);

}  // namespace trireme::cli
