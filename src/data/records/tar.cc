#include "data/records/tar.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"

namespace trireme::data {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMostExtension = 64 * kKiB;  // bytes of a name or a list of pax

std::string_view text_field(Bytes header, std::size_t from, std::size_t size) {
  const std::string_view field = as_text(header.subspan(from, size));
  return field.substr(0, field.find('\0'));
}

/// A number in octal digits or, with the first bit set, in binary. Beyond 2^63 - 1: that, which no tar holds.
std::uint64_t number_field(Bytes header, std::size_t from, std::size_t size) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Bytes field = header.subspan(from, size);
  std::uint64_t value = 0;
  if ((field.front() & std::byte{0x80}) != std::byte{0}) {
    for (std::size_t i = 0; i < field.size(); ++i) {
      if (value > kMost >> 8) return kMost;
      value = value << 8 | std::to_integer<std::uint64_t>(i == 0 ? field[i] & std::byte{0x7f} : field[i]);
    }
    return std::min(value, kMost);
  }
  for (const char digit : as_text(field)) {
    if (digit == ' ' && value == 0) continue;
    if (digit < '0' || digit > '7') break;
    if (value > kMost >> 3) return kMost;
    value = value << 3 | static_cast<std::uint64_t>(digit - '0');
  }
  return value;
}

bool sound(Bytes header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    sum += i >= 148 && i < 156 ? ' ' : std::to_integer<std::uint64_t>(header[i]);  // the sum itself counts as blanks
  }
  return sum == number_field(header, 148, 8);
}

}  // namespace

bool TarReader::next(TarEntry& entry) {
  entry = {.name = "", .header = offset_};
  bool has_size = false;
  std::uint64_t pax_size = 0;
  while (offset_ < size_) {
    const Bytes header = fetch_(offset_, kBlock);
    if (header.size() < kBlock) {
      fail<Corrupt>("{}: the tar is truncated: expected a header of 512 bytes, found {}", at_(offset_), header.size());
    }
    if (std::ranges::all_of(header, [](std::byte byte) { return byte == std::byte{0}; })) return false;  // its end
    if (!sound(header)) fail<Corrupt>("{}: damaged header of a tar: its checksum is wrong", at_(offset_));
    const char type = static_cast<char>(header[156]);
    std::uint64_t size = number_field(header, 124, 12);
    const bool regular = type == '0' || type == '\0' || type == '7';
    if (regular && has_size) size = pax_size;
    const std::uint64_t begin = offset_ + kBlock;
    if (size > size_ - begin) {
      fail<Corrupt>("{}: the tar is truncated: a file of {} bytes, but only {} are left", at_(offset_), size,
                    size_ - begin);
    }
    if (regular && entry.name.empty()) {
      const std::string_view prefix = as_text(header.subspan(257, 5)) == "ustar" ? text_field(header, 345, 155) : "";
      entry.name = prefix.empty() ? "" : std::string(prefix) + "/";
      entry.name += text_field(header, 0, 100);
    }
    const std::uint64_t padded = (size + kBlock - 1) / kBlock * kBlock;
    const std::uint64_t after = std::min(begin + padded, size_);
    if (regular) {
      entry.begin = begin;
      entry.size = size;
      offset_ = after;
      return true;
    }
    if ((type == 'x' || type == 'L') && size > kMostExtension) {
      fail<Corrupt>("{}: a name of {} bytes", at_(offset_), size);
    }
    if (type == 'L') {
      entry.name = text_field(fetch_(begin, static_cast<std::size_t>(size)), 0, static_cast<std::size_t>(size));
    } else if (type == 'x') {
      TarEntry pax;
      read_pax(begin, size, pax, has_size);
      if (!pax.name.empty()) entry.name = pax.name;
      pax_size = pax.size;
    } else {
      entry.name.clear();  // a folder or a link: what was said of it is not the next one's
      has_size = false;
      entry.header = after;
    }
    offset_ = after;
  }
  return false;
}

/// Records `LENGTH KEY=VALUE\n`, of which two matter here.
void TarReader::read_pax(std::uint64_t begin, std::uint64_t size, TarEntry& entry, bool& has_size) {
  const std::string all(as_text(fetch_(begin, static_cast<std::size_t>(size))));
  for (std::string_view rest = all; !rest.empty();) {
    std::size_t length = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (problem != std::errc() || length > rest.size() || length < digits + 2) {
      fail<Corrupt>("{}: damaged pax header of a tar", at_(begin + all.size() - rest.size()));
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    const std::string_view value = record.substr(std::min(record.size(), record.find('=') + 1));
    if (record.starts_with("path=")) entry.name = value;
    if (record.starts_with("size=")) {
      has_size = true;
      std::from_chars(value.data(), value.data() + value.size(), entry.size);
    }
    rest.remove_prefix(length);
  }
}

}  // namespace trireme::data
