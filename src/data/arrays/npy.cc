#include "data/arrays/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace trireme::data {
namespace {

/// Behind `key` in the header: a Python dictionary written as text.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::size_t colon = header.find(':', at);
  if (colon == std::string_view::npos) return {};
  std::string_view value = header.substr(colon + 1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

std::vector<std::int64_t> shape_in(std::string_view text, const std::string& where) {
  std::vector<std::int64_t> shape;
  const std::size_t end_of_shape = text.find(')');
  if (!text.starts_with('(') || end_of_shape == std::string_view::npos) {
    fail<Corrupt>("{}: an .npy file without a shape", where);
  }
  text = text.substr(1, end_of_shape - 1);
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == ',') {
      text.remove_prefix(1);
      continue;
    }
    std::int64_t extent = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (problem != std::errc() || extent < 0 || shape.size() == 32) {
      fail<Corrupt>("{}: an .npy file of the shape ({})", where, text.substr(0, 40));
    }
    shape.push_back(extent);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return shape;
}

constexpr std::array kNpyTypes{
    std::pair{"|u1", DType::kU8},  std::pair{"|i1", DType::kI8},  std::pair{"|b1", DType::kBool},
    std::pair{"<i2", DType::kI16}, std::pair{"<i4", DType::kI32}, std::pair{"<i8", DType::kI64},
    std::pair{"<f2", DType::kF16}, std::pair{"<f4", DType::kF32}, std::pair{"<f8", DType::kF64}};

DType type_in(std::string_view text, const std::string& where) {
  const std::string_view type = text.substr(0, 5);  // with its quotes
  const auto* const known = std::ranges::find_if(
      kNpyTypes, [&](const auto& one) { return type.size() == 5 && type.substr(1, 3) == one.first; });
  if (known == kNpyTypes.end()) {
    fail<Corrupt>("{}: an .npy file of the type {}, which is not read: save it with astype('<f4') or another of {}",
                  where, type, "|u1 |i1 |b1 <i2 <i4 <i8 <f2 <f4 <f8");
  }
  return known->second;
}

}  // namespace

NpyHeader parse_npy(Bytes front, std::uint64_t size, const std::string& where) {
  const std::string_view text = as_text(front);
  if (!text.starts_with("\x93NUMPY") || front.size() < 12) {
    fail<Corrupt>("{}: no .npy file: expected \\x93NUMPY and a header, found {}", where,
                  size == 0 ? "an empty file" : "something else");
  }
  const bool wide = text[6] >= 2;
  const std::size_t from = wide ? 12 : 10;
  const std::uint64_t length =
      wide ? load_le<std::uint32_t>(front.subspan(8)) : load_le<std::uint16_t>(front.subspan(8));
  if (length > size - from || length > kMostNpyHeader - from) {
    fail<Corrupt>("{}: a header of {} bytes: the .npy file is truncated or damaged", where, length);
  }
  const std::string_view header = text.substr(from, static_cast<std::size_t>(length));
  if (value_of(header, "'fortran_order'").starts_with("True")) {
    fail<Corrupt>("{}: an .npy file in Fortran's order: save it with numpy.ascontiguousarray", where);
  }
  NpyHeader result{.dtype = type_in(value_of(header, "'descr'"), where),
                   .shape = shape_in(value_of(header, "'shape'"), where),
                   .begin = from + length};
  const std::uint64_t held = size - result.begin;
  std::uint64_t bytes = size_of(result.dtype);
  for (const std::int64_t extent : result.shape) {
    const auto count = static_cast<std::uint64_t>(extent);
    if (count != 0 && bytes > held / count) {
      fail<Corrupt>("{}: the .npy file is truncated: {} bytes of values are too few for its shape", where, held);
    }
    bytes *= count;
  }
  if (bytes != held) fail<Corrupt>("{}: {} bytes of values, expected {}", where, held, bytes);
  return result;
}

}  // namespace trireme::data
