#include "dash/metric_rows.h"

#include <sys/stat.h>

#include <fstream>
#include <string_view>
#include <utility>

namespace trireme::dash {

std::vector<std::string> thin_out(std::vector<std::string> rows, std::size_t most) {
  if (rows.size() <= most || most == 0) return rows;
  const std::size_t every = (rows.size() + most - 1) / most;
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool plain =
        rows[i].find("\"not_finite\"") == std::string::npos && rows[i].find("\"kind\":\"train\"") != std::string::npos;
    if (!plain || i % every == 0 || i + 1 == rows.size()) kept.push_back(std::move(rows[i]));
  }
  return kept;
}

MetricRows::News MetricRows::next() {
  News news;
  struct stat status {};
  if (::stat(file_.c_str(), &status) != 0) {
    news.reset = std::exchange(read_, 0) > 0;
    return news;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const bool other = (inode_ != 0 && status.st_ino != inode_) || size < read_;  // a resume writes the file anew
  inode_ = status.st_ino;
  if (other) {
    news.reset = true;
    read_ = 0;
  }
  if (size == read_) return news;
  std::ifstream in(file_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(read_));
  std::string block(size - read_, '\0');
  in.read(block.data(), static_cast<std::streamsize>(block.size()));
  block.resize(static_cast<std::size_t>(in.gcount()));
  const auto whole = block.rfind('\n');
  if (whole == block.npos) return news;
  read_ += whole + 1;
  for (std::string_view left = std::string_view(block).substr(0, whole + 1); !left.empty();) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(line.size() + 1);
    if (line.starts_with('{') && line.ends_with('}')) news.rows.emplace_back(line);
  }
  news.rows = thin_out(std::move(news.rows), kMost);
  return news;
}

}  // namespace trireme::dash
