#pragma once

#include <filesystem>
#include <string>

#include "net/http/server.h"

namespace trireme::cli {

/// Where a page is served, and how.
struct PageAddress {
  net::HttpServerOptions server;  ///< with TLS if the certificate was given, or others than this machine can connect
  bool private_page = false;      ///< others than this machine can connect: the token is needed to read
  std::string fingerprint = {};   ///< of the certificate; empty without TLS
};

/// Returns how to serve a page on `listen`, "host:port": on loopback as http, elsewhere as https. `certificate` is a
/// PEM file with a certificate, what vouches for it, and its key; if it is empty, a certificate is made where one is
/// needed, and kept in `keep`, so that a later call finds it: empty = not kept. Throws InvalidArgument, IoError.
PageAddress page_address(const std::string& listen, const std::string& certificate, const std::filesystem::path& keep);

}  // namespace trireme::cli
