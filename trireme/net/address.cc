#include "trireme/net/address.h"

#include <sys/stat.h>

#include <charconv>

#include <boost/asio/ip/address.hpp>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/suggest.h"

namespace trireme::net {

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Address parse_address(const std::string& text) {
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

}  // namespace trireme::net
