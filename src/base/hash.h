#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace trireme {

/// SHA-256 of a stream of bytes.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(Bytes bytes);

  /// Returns the digest as lower-case hexadecimal and ends the stream.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

using Digest = std::array<std::byte, 32>;

/// Returns the HMAC-SHA256 of `message` under `key`.
Digest hmac_sha256(Bytes key, Bytes message);

/// Compares two digests in constant time.
bool equal_digests(const Digest& a, const Digest& b);

/// Returns the CRC-32C (Castagnoli), continuing from `crc`; 0 starts. For frames, TensorBoard records and checkpoints.
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0);

}  // namespace trireme
