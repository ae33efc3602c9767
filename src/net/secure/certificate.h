#pragma once

#include <memory>
#include <string>
#include <vector>

namespace boost::asio::ssl {
class context;
}

namespace trireme::net {

/// What a server shows browsers to prove who it is, and the key that goes with it, both as PEM.
struct Certificate {
  std::string chain;  ///< the server's own first
  std::string key;    ///< never printed
};

/// Makes a certificate that nobody but itself vouches for (P-256, for a year), for these host names and addresses.
/// Browsers ask before they trust it: people compare its fingerprint. Throws IoError if OpenSSL cannot.
Certificate make_certificate(const std::vector<std::string>& hosts);

/// Returns the SHA-256 of the first certificate as browsers show it: "AB:CD:…". Throws InvalidArgument if it is none.
std::string fingerprint(const Certificate& certificate);

/// TLS 1.2 and later for HTTP servers. Throws InvalidArgument if the certificate is none, or the key is another's.
std::shared_ptr<boost::asio::ssl::context> make_server_context(const Certificate& certificate);

}  // namespace trireme::net
