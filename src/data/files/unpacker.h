#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace trireme::data {

/// Unpacks one compressed stream: gzip or zstd. Not thread-safe.
class Unpacker {
 public:
  struct Progress {
    std::size_t written = 0;
    bool ended = false;  ///< a gzip member or a zstd frame ended; others may follow
  };

  virtual ~Unpacker() = default;

  /// Unpacks from the front of `input`, which is advanced past what was used, into `out`. Returns without progress only
  /// if it needs more input. Throws Corrupt that says what is wrong; the caller knows where.
  virtual Progress unpack(Bytes& input, MutableBytes out) = 0;

  /// Makes it ready for the next member or frame.
  virtual void restart() = 0;

  virtual const char* format() const = 0;        ///< for messages: `gzip`
  virtual Bytes magic() const = 0;               ///< the first bytes of every member or frame
  virtual std::uint64_t best_ratio() const = 0;  ///< the most bytes that one packed byte can stand for
};

/// Returns what unpacks a file that begins with `first`; null if that is neither gzip nor zstd, so a plain file. Throws
/// InvalidArgument, saying what to install, if it is zstd and Trireme was built without it.
std::unique_ptr<Unpacker> make_unpacker(Bytes first);

bool has_zstd();  ///< whether Trireme was built with it

// The two kinds; make_unpacker chooses.
std::unique_ptr<Unpacker> make_gzip_unpacker();
std::unique_ptr<Unpacker> make_zstd_unpacker();

}  // namespace trireme::data
