#include "data/records/parts.h"

#include <charconv>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/arrays/npy.h"
#include "data/images/image.h"

namespace trireme::data {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const Bytes bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

Part decode_class(Bytes content, const std::string& where) {
  std::string_view text = as_text(content);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  std::int64_t label = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (problem != std::errc() || end != text.data() + text.size()) {
    fail<Corrupt>("{}: a class is a whole number, not '{}'", where, text.substr(0, 40));
  }
  return {.dtype = DType::kI64, .bytes = bytes_of(std::vector{label})};
}

Part decode_pixels(Bytes content, const ImageSize& size, const std::string& where) {
  const Image image = decode_image(content, where);
  const auto height = size.height > 0 ? static_cast<std::uint32_t>(size.height) : image.height;
  const auto width = size.width > 0 ? static_cast<std::uint32_t>(size.width) : image.width;
  Part part{.dtype = DType::kU8, .shape = {3, height, width}};
  part.bytes.resize(std::size_t{3} * height * width);
  resize_to_planes(image, height, width, reinterpret_cast<std::uint8_t*>(part.bytes.data()));
  return part;
}

/// A number, or a list of numbers; false if it is something else.
bool decode_number(const nlohmann::json& value, Part& part) {
  std::vector<float> numbers;
  const bool list = value.is_array();
  const auto take = [&](const nlohmann::json& one) {
    if (!one.is_number() && !one.is_boolean()) return false;
    numbers.push_back(one.is_boolean() ? (one.get<bool>() ? 1.0f : 0.0f) : one.get<float>());
    return true;
  };
  if (list) {
    for (const nlohmann::json& one : value) {
      if (!take(one)) return false;
    }
    if (numbers.empty()) return false;
    part.shape = {static_cast<std::int64_t>(numbers.size())};
  } else if (!take(value)) {
    return false;
  }
  part.dtype = DType::kF32;
  part.bytes = bytes_of(numbers);
  return true;
}

void decode_json(std::string_view name, Bytes content, const std::string& where, std::vector<Part>& parts) {
  nlohmann::json value;
  try {
    // Nesting is bounded by hand: the parser frees what it made by recursion.
    int depth = 0;
    value = nlohmann::json::parse(as_text(content), [&](int at, nlohmann::json::parse_event_t, nlohmann::json&) {
      depth = std::max(depth, at);
      if (depth > 64) throw Corrupt("nested too deeply");
      return true;
    });
  } catch (const std::exception& problem) {
    fail<Corrupt>("{}: no JSON: {}", where, problem.what());
  }
  if (!value.is_object()) {
    Part part{.name = name.empty() ? "json" : std::string(name)};
    if (decode_number(value, part)) parts.push_back(std::move(part));
    return;
  }
  for (const auto& [key, one] : value.items()) {
    Part part{.name = name.empty() ? key : fmt::format("{}.{}", name, key)};
    if (!part.name.empty() && decode_number(one, part)) parts.push_back(std::move(part));
  }
}

}  // namespace

Part decode_npy(Bytes content, const std::string& where) {
  const NpyHeader header = parse_npy(content, content.size(), where);
  const Bytes values = content.subspan(static_cast<std::size_t>(header.begin));
  return {.dtype = header.dtype, .shape = header.shape, .bytes = {values.begin(), values.end()}};
}

void decode_part(std::string_view extension, Bytes content, const ImageSize& size, const std::string& where,
                 std::vector<Part>& parts) {
  const std::size_t dot = extension.rfind('.');
  const std::string_view kind = dot == std::string_view::npos ? extension : extension.substr(dot + 1);
  const std::string name(dot == std::string_view::npos ? "" : extension.substr(0, dot));
  const auto add = [&](Part part, const char* usual) {
    part.name = name.empty() ? usual : name;
    parts.push_back(std::move(part));
  };
  if (kind == "cls") {
    add(decode_class(content, where), "label");
  } else if (kind == "png" || kind == "jpg" || kind == "jpeg") {
    add(decode_pixels(content, size, where), "image");
  } else if (kind == "txt") {
    add({.dtype = DType::kU8,
         .shape = {static_cast<std::int64_t>(content.size())},
         .bytes = {content.begin(), content.end()}},
        "txt");
  } else if (kind == "npy") {
    add(decode_npy(content, where), "npy");
  } else if (kind == "json") {
    decode_json(name, content, where, parts);
  }
}

}  // namespace trireme::data
