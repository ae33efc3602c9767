#include "launch/job/log_tail.h"

#include <algorithm>
#include <fstream>

namespace trireme::launch {
namespace {

constexpr std::streamoff kMostBytes = 64 * 1024;
constexpr std::size_t kLinesOfAnEnd = 10;
constexpr std::size_t kLevelAt = 25;  // of a line of ours: 2026-03-01T09:15:02.123Z info    [worker 1] ...

/// Returns up to kMostBytes from the end of the file, and nothing before `from`, starting with a whole line if there is
/// one.
std::string end_of_file(const std::filesystem::path& path, std::streamoff from) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  if (!in || size <= from) return "";
  const std::streamoff take = std::min(size - from, kMostBytes);
  std::string text(static_cast<std::size_t>(take), '\0');
  in.seekg(size - take);
  in.read(text.data(), take);
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (take < size - from) {
    if (const std::size_t cut = text.find('\n'); cut != std::string::npos) text.erase(0, cut + 1);
  }
  return text;
}

}  // namespace

std::string tail_of_log(const std::filesystem::path& path, std::size_t lines, std::uintmax_t from) {
  std::string text = end_of_file(path, static_cast<std::streamoff>(from));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t begin = text.size();
  for (; lines > 0 && begin > 0; --lines) {
    const std::size_t newline = text.rfind('\n', begin - 1);
    if (newline == std::string::npos) return text;
    begin = newline;
  }
  if (begin < text.size()) ++begin;  // skip the newline before the first line wanted
  return text.substr(begin);
}

std::string last_complaint(const std::filesystem::path& path, const std::string& program) {
  const std::string text = tail_of_log(path, kLinesOfAnEnd);
  const auto complains = [&](std::string_view line) {
    const bool logged = line.size() > kLevelAt && line[kLevelAt - 2] == 'Z' && line[4] == '-' && line[10] == 'T';
    if (logged) {
      const std::string_view level = line.substr(kLevelAt, line.find(' ', kLevelAt) - kLevelAt);
      return level == "warning" || level == "error" || level == "critical";
    }
    return line.starts_with(program + ": ") || line.starts_with("terminate called") || line.starts_with("  what(): ");
  };
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t newline = text.rfind('\n', end - 1);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (complains(line)) return std::string(line);
    end = newline == std::string::npos ? 0 : newline;
  }
  return text.substr(text.rfind('\n') + 1);  // all of it, if it is one line
}

}  // namespace trireme::launch
