#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

// A stream of bytes in the clear, cut into records that can be neither changed, injected, repeated nor left out:
//
//   u32 size of the content, 1 to kMostRecord   the content   FrameTag of both
//
// Records are as long as what is to be sent, at most kMostRecord; they mean nothing to those who use the stream.

inline constexpr std::size_t kMostRecord = 64 * kKiB;

/// The sending side. One thread at a time.
class RecordWriter {
 public:
  explicit RecordWriter(const Digest& key) : mac_(key) {}

  /// Makes a record of the beginning of `bytes`, unless one is still to be sent.
  void begin(Bytes bytes);

  /// Returns what is to be sent now; empty if nothing is.
  Bytes unsent() const { return Bytes(record_).subspan(sent_); }

  /// So many of these bytes are on their way. Returns how many bytes of content have left with it: all of the record's
  /// at once, when its last byte has.
  std::size_t sent(std::size_t count);

 private:
  FrameMac mac_;
  std::vector<std::byte> record_;
  std::size_t sent_ = 0;
};

/// The receiving side. One thread at a time.
class RecordReader {
 public:
  explicit RecordReader(const Digest& key) : mac_(key), buffer_(2 * (kMostRecord + 64)) {}

  /// Returns how many bytes of content it could give: they were written to the beginning of `out`. 0: more have to
  /// arrive. Throws Corrupt if a record is not what was sent.
  std::size_t take(MutableBytes out);

  /// Returns where arriving bytes go; never empty after `take` has returned 0.
  MutableBytes room();

  /// So many have arrived there.
  void arrived(std::size_t count) { end_ += count; }

 private:
  bool open_next();

  FrameMac mac_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;    // of what has arrived and was not opened
  std::size_t end_ = 0;      // and its end
  std::size_t content_ = 0;  // of the record that is open: where the rest of its content begins
  std::size_t left_ = 0;     // and how much of it is left
};

}  // namespace trireme::net
