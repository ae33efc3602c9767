#pragma once

#include "base/bytes.h"

namespace trireme {

/// Reads a little-endian number from memory that another process may change at any moment. The compiler cannot read it
/// a second time, so the number that was checked is the one that is used.
template <typename T>
[[gnu::always_inline]] inline T read_once(Bytes from) {
  T value = load_le<T>(from);
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace trireme
