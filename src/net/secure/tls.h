#pragma once

#include <memory>
#include <string>

#include "net/asio.h"

namespace trireme::net {

/// A TLS 1.3 context whose only credential is a key derived from the job's secret (RFC 8446, external PSK with
/// Diffie-Hellman): no certificates to make, hand out or renew, and forward secrecy all the same.
std::shared_ptr<asio::ssl::context> make_tls_context(const std::string& secret);

/// What only the two ends of this TLS connection know (RFC 8446, exporter): ties to it what is said inside.
std::string tls_channel_binding(TlsStream& stream);

}  // namespace trireme::net
