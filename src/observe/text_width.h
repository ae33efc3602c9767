#pragma once

#include <string>
#include <string_view>

namespace trireme::observe {

/// Returns `text` made safe for one line of a terminal: control characters become spaces, invalid UTF-8 bytes '?'.
std::string printable(std::string_view text);

/// Returns the most columns of a terminal that `text` may take. Code points that may be two columns wide in some
/// terminal (CJK, emoji) count as two, so the result can be too high but not too low. `text` is printable UTF-8.
int columns_of(std::string_view text);

/// Returns `text`, or as much of it as fits into `columns` with "…" in place of the rest.
std::string fit(std::string_view text, int columns);

}  // namespace trireme::observe
