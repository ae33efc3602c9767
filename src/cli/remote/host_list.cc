#include "cli/remote/host_list.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/error.h"

namespace trireme::cli {
namespace {

std::uint32_t parse_slots(const std::string& what, const std::string& host, const std::string& digits) {
  std::uint32_t slots = 0;
  const auto [stopped, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), slots);
  if (problem != std::errc() || stopped != digits.data() + digits.size() || slots == 0) {
    fail<InvalidArgument>("{}: '{}': how many workers does the host take? Write host:4", what, host);
  }
  return slots;
}

/// A name that begins with '-' would be a flag of ssh.
void add_host(const std::string& what, std::vector<HostSlots>& hosts, HostSlots host) {
  if (host.name.empty() || host.name.front() == '-' || host.name.find_first_of(" \t'\"\\$;|&") != std::string::npos) {
    fail<InvalidArgument>("{}: '{}' is no name of a host; write a:4,b:4", what, host.name);
  }
  if (std::ranges::count(hosts, host.name, &HostSlots::name) > 0) {
    fail<InvalidArgument>("{}: host {} is there twice", what, host.name);
  }
  hosts.push_back(std::move(host));
}

/// "user@[fd00::1]" as ssh takes it: "user@fd00::1".
std::string without_brackets(std::string name) {
  std::erase_if(name, [](char letter) { return letter == '[' || letter == ']'; });
  return name;
}

/// "host:4". An address of IPv6 has several colons, and is then in brackets.
HostSlots parse_host(const std::string& what, const std::string& text) {
  const auto bracket = text.find(']');
  const auto colon = text.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon == std::string::npos) return {.name = without_brackets(text)};
  return {.name = without_brackets(text.substr(0, colon)), .slots = parse_slots(what, text, text.substr(colon + 1))};
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& what, const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) add_host(what, hosts, parse_host(what, part));
  if (hosts.empty()) fail<InvalidArgument>("{}: no host is named; write a:4,b:4", what);
  return hosts;
}

std::vector<HostSlots> parse_host_lines(const std::string& what, const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    HostSlots host = parse_host(what, name);
    constexpr std::string_view kSlots = "slots=";
    for (std::string word; words >> word;) {
      if (!word.starts_with(kSlots)) fail<InvalidArgument>("{}: '{}': expected 'host:4' or 'host slots=4'", what, line);
      host.slots = parse_slots(what, line, word.substr(kSlots.size()));
    }
    add_host(what, hosts, std::move(host));
  }
  return hosts;
}

std::uint32_t total_slots(const std::vector<HostSlots>& hosts) {
  std::uint32_t total = 0;
  for (const HostSlots& host : hosts) total += host.slots;
  return total;
}

SlotHosts place_workers(const SlotHosts& before, const std::vector<HostSlots>& hosts, std::uint32_t count,
                        const std::set<std::string>& without_folder) {
  std::map<std::string, std::uint32_t> room;
  for (const HostSlots& host : hosts) room[host.name] = host.slots;
  SlotHosts placed;
  const auto place = [&](std::uint32_t slot, const std::string& host) {
    if (room[host] == 0 || (slot == 0 && without_folder.contains(host))) return;
    placed[slot] = host;
    --room[host];
  };
  for (const auto& [slot, name] : before) {
    if (slot < count && room.contains(name)) place(slot, name);
  }
  for (const HostSlots& host : hosts) {
    for (std::uint32_t slot = 0; slot < count && room[host.name] > 0; ++slot) {
      if (!placed.contains(slot)) place(slot, host.name);
    }
  }
  return placed;
}

SlotHosts place_servers(const SlotHosts& before, const std::vector<HostSlots>& hosts, std::uint32_t count) {
  SlotHosts placed;
  for (std::uint32_t slot = 0; slot < count && !hosts.empty(); ++slot) {
    const auto old = before.find(slot);
    const bool stays = old != before.end() && std::ranges::count(hosts, old->second, &HostSlots::name) > 0;
    placed[slot] = stays ? old->second : hosts[slot % hosts.size()].name;
  }
  return placed;
}

}  // namespace trireme::cli
