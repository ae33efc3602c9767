#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Returns the candidate closest to `word` by edit distance if it is close enough to be a typo, else an empty string.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

/// Returns ` (did you mean 'lenet'?)` or an empty string: for the end of an error message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trireme
