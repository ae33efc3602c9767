#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// Returns `bytes` as base64 text (RFC 4648, with padding).
std::string base64_encode(std::string_view bytes);

/// Returns the bytes that `text` encodes. Throws Corrupt if it is not base64.
std::string base64_decode(std::string_view text);

}  // namespace trireme
