#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace trireme::net {

/// Where a process listens. Travels in messages.
struct Address {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string host_id;    ///< which running kernel: two processes with the same id may share memory
  std::string unix_name;  ///< abstract Unix socket for that; empty = none
  std::string identity;   ///< of this very listener, at random: whoever has the address later is another; empty = any

  /// "host:port". Whoever parses it learns nothing about shared memory, and reaches the process over the network only.
  std::string text() const;

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Address, host, port, host_id, unix_name, identity)
};

/// Parses "host:port" or "[v6]:port"; there are no schemes, the transport is the caller's choice. Throws
/// InvalidArgument.
Address parse_address(const std::string& text);

/// Names this boot of this machine's kernel, and the network namespace (Unix sockets do not reach beyond it).
std::string this_host_id();

bool is_loopback(const std::string& host);

/// How two processes talk.
enum class Transport {
  kAuto,  ///< shared memory on one host, TCP on loopback (bytes without frames: TLS), TLS between hosts
  kShm,   ///< shared memory or an error
  kTcp,   ///< TCP in the clear, also between hosts: for a network that is trusted, and for measurements
  kTls,   ///< TLS 1.3, also on loopback
};

/// How to reach `to` over the network where `wanted` would allow shared memory.
Transport network_transport(Transport wanted, const Address& to);

/// The same for bytes without frames: in the clear only if that is wanted, for such bytes carry no tags.
Transport raw_transport(Transport wanted);

/// "auto", "shm", "tcp", "tls". Throws InvalidArgument.
Transport parse_transport(const std::string& text);
std::string to_string(Transport transport);

/// What `text` says in bits per second: "100mbit", "1.5gbit", "64kbit", or a number. Throws InvalidArgument.
std::uint64_t parse_bit_rate(const std::string& text);

}  // namespace trireme::net
