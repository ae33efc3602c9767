#pragma once

#include <string>
#include <vector>

namespace trireme::observe {

using TableCells = std::vector<std::vector<std::string>>;  ///< [row][column]; the first row is the heading

/// Lines with texts to the left and numbers to the right, two spaces before each column. `numeric` says which columns
/// are numbers. What would harm a terminal (control characters, bytes that are not UTF-8) is replaced.
std::string aligned(TableCells cells, const std::vector<bool>& numeric);

}  // namespace trireme::observe
