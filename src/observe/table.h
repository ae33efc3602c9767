#pragma once

#include <string>
#include <vector>

namespace trireme::observe {

using TableCells = std::vector<std::vector<std::string>>;  ///< [row][column]; the first row is the heading

/// Returns lines with texts left-aligned and numbers right-aligned, two spaces before each column. `numeric` says which
/// columns are numbers. Replaces what would harm a terminal (control characters, bytes that are not UTF-8).
std::string aligned(TableCells cells, const std::vector<bool>& numeric);

}  // namespace trireme::observe
