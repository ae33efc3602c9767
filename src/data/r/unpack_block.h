#pragma once

#include <string>

#include "base/bytes.h"

namespace trireme::data {

/// Returns a block of an R lazy-load file (.rdb) unpacked. It begins with its unpacked size (four bytes, most
/// significant first); zlib data follows, or `Z` and raw LZMA2 data, or `2` and bzip2 (not read), or `0` and the bytes
/// themselves. Throws Corrupt, beginning with `where`; InvalidArgument, saying what to install, if Trireme was built
/// without liblzma and the block needs it.
std::string unpack_r_block(Bytes block, const std::string& where);

}  // namespace trireme::data
