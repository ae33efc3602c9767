#include "observe/metrics_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace trireme::observe {
namespace {

using nlohmann::json;

/// Returns where the last complete line of a file of `size` bytes ends.
std::uint64_t end_of_whole_lines(int descriptor, std::uint64_t size, const std::filesystem::path& path) {
  std::array<char, 64 * 1024> block;
  while (size > 0) {
    const std::uint64_t begin = size - std::min<std::uint64_t>(size, block.size());
    const ssize_t got = ::pread(descriptor, block.data(), size - begin, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot read " + path.string());
    if (static_cast<std::uint64_t>(got) != size - begin) fail<IoError>("{} changed while it was read", path.string());
    const std::string_view text(block.data(), size - begin);
    if (const std::size_t line_break = text.rfind('\n'); line_break != text.npos) return begin + line_break + 1;
    size = begin;
  }
  return 0;
}

/// Cuts off a partial row that a crash left. Returns the size of the file afterwards.
std::uint64_t repair(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_errno("cannot look at " + path.string());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t whole = end_of_whole_lines(descriptor, size, path);
  if (whole == size) return size;
  char first = 0;
  if (::pread(descriptor, &first, 1, static_cast<off_t>(whole)) != 1) fail_errno("cannot read " + path.string());
  if (first != '{' && first != '\0') {  // some file systems leave zero bytes after a power failure
    fail<Corrupt>("the last line of {} is cut short and is not a row of metrics: is it another file? Name a new one",
                  path.string());
  }
  if (::ftruncate(descriptor, static_cast<off_t>(whole)) != 0) fail_errno("cannot repair " + path.string());
  log_warn("row_cut_off", "cut off a row that an earlier run did not finish",
           {{"file", path.string()}, {"bytes", size - whole}});
  return whole;
}

AppendFile open_locked(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file) fail_errno("cannot open " + path.string());
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail_errno("cannot lock " + path.string());
    fail<IoError>("{} is being written by another run; stop that one or choose another folder with --out",
                  path.string());
  }
  const std::uint64_t size = repair(file.get(), path);
  return AppendFile(std::move(file), path, size);
}

/// Adds to `found` the path and kind of every number in `value` that JSON cannot represent.
void find_not_finite(const json& value, const std::string& path, json& found) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (!std::isfinite(number)) found[path] = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  } else if (value.is_structured()) {
    for (const auto& [key, child] : value.items()) find_not_finite(child, path.empty() ? key : path + "." + key, found);
  }
}

}  // namespace

void drop_rows_after(const std::filesystem::path& path, Step step) {
  if (!std::filesystem::exists(path)) return;
  std::istringstream rows(read_file(path));
  std::string kept;
  bool dropped = false;
  for (std::string line; std::getline(rows, line);) {
    const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool keep = row.is_object() && row.value("step", Step{0}) <= step;
    if (keep) kept += line + "\n";
    dropped = dropped || !keep;
  }
  if (dropped) write_file_atomically(path, as_bytes(kept));
}

json last_train_row(const std::filesystem::path& path) {
  json last;
  if (!std::filesystem::exists(path)) return last;
  std::ifstream rows(path);
  if (!rows) fail<IoError>("cannot open {}", path.string());
  for (std::string line; std::getline(rows, line);) {
    json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_object() && row.value("kind", "") == "train") last = std::move(row);
  }
  return last;
}

MetricsFile::MetricsFile(const std::filesystem::path& path) : file_(open_locked(path)) {}

void MetricsFile::append(const json& row) {
  if (!row.is_object()) fail<InvalidArgument>("a row of metrics must be a JSON object, not {}", row.type_name());
  json not_finite = json::object();
  find_not_finite(row, "", not_finite);
  const auto as_line = [](const json& object) {  // dump itself writes null for NaN and infinity
    return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  if (not_finite.empty()) {
    file_.append(as_bytes(as_line(row)));
  } else {
    json explained = row;
    explained["not_finite"] = std::move(not_finite);
    file_.append(as_bytes(as_line(explained)));
  }
}

}  // namespace trireme::observe
