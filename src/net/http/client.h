#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/deadline.h"

#include "net/address.h"

namespace trireme::net {

/// Whom to trust over TLS, and as whom to appear there. All are files in PEM form.
struct HttpTls {
  std::string ca_file;           ///< certificates of who may vouch for the server; empty = the system's
  std::string certificate_file;  ///< this client's own, if the server asks for one; empty = none
  std::string key_file;          ///< of that certificate
};

struct HttpPost {
  std::string path;                            ///< "/v3/kv/range"
  std::string body;                            ///< sent as application/json
  std::string authorization = {};              ///< the header of that name; empty = none
  std::size_t largest_answer = 1024UL * 1024;  ///< in bytes; more is refused before it is read
  Deadline deadline = Deadline::in(5s);
};

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

/// Asks one HTTP/1.1 server over plain TCP or TLS, one question at a time, on a connection that is kept open between
/// them. Runs on the calling thread; not for several threads at once.
class HttpClient {
 public:
  /// Throws InvalidArgument if a file of `tls` cannot be used.
  explicit HttpClient(Address server, const std::optional<HttpTls>& tls = std::nullopt);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  /// Sends `post` and returns the answer, whatever its status. A server's *name* is looked up anew for each connection,
  /// which takes as long as the system's resolver does; everything else ends at the deadline.
  ///
  /// Throws PeerLost if the server cannot be reached or the connection ends before the answer does, Timeout at the
  /// deadline (in both cases the server may have done what was asked), Corrupt if the answer is not HTTP or too large,
  /// Unauthenticated if one of the two does not trust the other's certificate.
  HttpAnswer post(const HttpPost& post);

  std::string url() const;  ///< "https://10.0.0.7:2379"

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::net
