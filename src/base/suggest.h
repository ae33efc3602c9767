#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The candidate closest to `word` by edit distance, if it is close enough to be a typo; else empty.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

/// ` (did you mean 'lenet'?)` or empty: for the end of an error message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trireme
