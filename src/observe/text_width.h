#pragma once

#include <string>
#include <string_view>

namespace trireme::observe {

/// `text` made safe for one line of a terminal: control characters become spaces, bytes that are not UTF-8 become '?'.
std::string printable(std::string_view text);

/// How many columns of a terminal `text` takes at most. Code points that may be two columns wide in some terminal
/// (CJK, emoji) count as two, so the answer can be too high but not too low. `text` is printable UTF-8.
int columns_of(std::string_view text);

/// `text`, or as much of it as fits into `columns` with "…" in place of the rest.
std::string fit(std::string_view text, int columns);

}  // namespace trireme::observe
