#pragma once

#include <array>
#include <memory>
#include <span>

#include <openssl/evp.h>

#include "base/bytes.h"
#include "base/hash.h"

namespace trireme::net {

/// What follows each frame on a connection in the clear.
using FrameTag = std::array<std::byte, 16>;

/// Authenticates the frames of one direction of a connection: AES-128-GMAC with the number of the frame as nonce, so
/// that frames can be neither changed, injected, repeated nor left out. Both ends count. One thread at a time.
class FrameMac {
 public:
  /// `key`: from the handshake, for this direction of this connection alone.
  explicit FrameMac(const Digest& key);

  /// Returns the tag of the next frame, which consists of `parts`.
  FrameTag next(std::span<const Bytes> parts);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  std::uint64_t frames_ = 0;
};

}  // namespace trireme::net
