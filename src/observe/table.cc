#include "observe/table.h"

#include <algorithm>

#include "observe/text_width.h"

namespace trireme::observe {

std::string aligned(TableCells cells, const std::vector<bool>& numeric) {
  std::vector<std::size_t> widths(cells.front().size(), 0);
  const auto width = [](const std::string& text) { return static_cast<std::size_t>(columns_of(text)); };
  for (auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(row[i]);
      widths[i] = std::max(widths[i], width(row[i]));
    }
  }
  std::string text;
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width(row[i]), ' ');
      line += "  " + (numeric[i] ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace trireme::observe
