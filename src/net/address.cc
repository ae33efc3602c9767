#include "net/address.h"

#include <sys/stat.h>

#include <charconv>
#include <map>

#include <boost/asio/ip/address.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

namespace trireme::net {

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Address parse_address(const std::string& text) {
  if (text.find("://") != std::string::npos) {
    fail<InvalidArgument>(
        "'{}' is not an address: expected host:port, without a scheme; the transport (auto, shm, tcp, tls) is chosen "
        "for "
        "the whole job",
        text);
  }
  const auto colon = text.rfind(':');
  Address address;
  if (colon == std::string::npos || colon == 0)
    fail<InvalidArgument>("'{}' is not an address: expected host:port", text);
  address.host = text.substr(0, colon);
  if (address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  const char* begin = text.data() + colon + 1;
  const char* end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(begin, end, address.port);
  if (problem != std::errc() || stopped != end || begin == end) {
    fail<InvalidArgument>("'{}' is not an address: the port must be a number from 0 to 65535", text);
  }
  return address;
}

std::string this_host_id() {
  std::string id = read_file("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) != 0) return id;
  return fmt::format("{}-{}", id, network.st_ino);
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  boost::system::error_code not_a_number;  // a name such as 127.example.org: wherever it leads, not surely here
  const auto address = boost::asio::ip::make_address(host, not_a_number);
  if (not_a_number) return false;
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).is_loopback()
                : address.is_loopback();
}

Transport network_transport(Transport wanted, const Address& to) {
  if (wanted == Transport::kTcp || wanted == Transport::kTls) return wanted;
  return is_loopback(to.host) ? Transport::kTcp : Transport::kTls;
}

Transport raw_transport(Transport wanted) { return wanted == Transport::kTcp ? wanted : Transport::kTls; }

Transport parse_transport(const std::string& text) {
  if (text == "auto") return Transport::kAuto;
  if (text == "shm") return Transport::kShm;
  if (text == "tcp") return Transport::kTcp;
  if (text == "tls") return Transport::kTls;
  fail<InvalidArgument>("unknown transport '{}'{}: use auto, shm, tcp or tls", text,
                        did_you_mean(text, {"auto", "shm", "tcp", "tls"}));
}

std::string to_string(Transport transport) {
  switch (transport) {
    case Transport::kAuto:
      return "auto";
    case Transport::kShm:
      return "shm";
    case Transport::kTcp:
      return "tcp";
    case Transport::kTls:
      return "tls";
  }
  return "?";
}

std::uint64_t parse_bit_rate(const std::string& text) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const std::map<std::string, double> units = {{"", 1}, {"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  const auto found = units.find(unit);
  const double rate = found == units.end() ? 0 : number * found->second;
  if (problem != std::errc() || found == units.end() || !(rate >= 8) || rate > 1e15) {
    fail<InvalidArgument>("'{}' is not a speed: write it like 100mbit, 1.5gbit or 64kbit", text);
  }
  return static_cast<std::uint64_t>(rate);
}

}  // namespace trireme::net
