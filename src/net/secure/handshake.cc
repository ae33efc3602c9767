#include "net/secure/handshake.h"

#include <openssl/rand.h>

namespace trireme::net {

Nonce fresh_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1) {
    fail<IoError>("the system gave no random bytes");
  }
  return nonce;
}

Digest handshake_proof(const std::string& secret, std::string_view side, const Nonce& client, const Nonce& server) {
  std::string message = "trireme handshake ";
  message.append(side).append(as_text(client)).append(as_text(server));
  return hmac_sha256(as_bytes(secret), as_bytes(message));
}

void fail_other_version(std::uint16_t theirs) {
  fail<Unauthenticated>("it speaks protocol version {}, this process {}: use one build of Trireme everywhere", theirs,
                        kProtocolVersion);
}

}  // namespace trireme::net
