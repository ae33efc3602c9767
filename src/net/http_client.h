#pragma once

#include <memory>
#include <string>

#include "trireme/deadline.h"

#include "net/address.h"

namespace trireme::net {

struct HttpPost {
  std::string path;                            ///< "/v3/kv/range"
  std::string body;                            ///< sent as application/json
  std::size_t largest_answer = 1024UL * 1024;  ///< in bytes; more is refused before it is read
  Deadline deadline = Deadline::in(5s);
};

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

/// Asks one HTTP/1.1 server over plain TCP, one question at a time, on a connection that is kept open between them.
/// Runs on the calling thread; not for several threads at once.
class HttpClient {
 public:
  explicit HttpClient(Address server);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  /// Sends `post` and returns the answer, whatever its status. A server's *name* is looked up anew for each connection,
  /// which takes as long as the system's resolver does; everything else ends at the deadline.
  ///
  /// Throws PeerLost if the server cannot be reached or the connection ends before the answer does, Timeout at the
  /// deadline (in both cases the server may have done what was asked), Corrupt if the answer is not HTTP or too large.
  HttpAnswer post(const HttpPost& post);

  const Address& server() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::net
