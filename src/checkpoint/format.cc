#include "checkpoint/format.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "checkpoint/document.h"
#include "checkpoint/safetensors/safetensors_header.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t kFormat = 1;
constexpr std::string_view kIndexKind = "index";
constexpr std::string_view kManifestKind = "manifest";
constexpr std::uint64_t kMostInt64 = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMaxBlockBytes = 64 << 20;  // a reader allocates memory for one

/// Checks the fields that both documents begin with; returns the attempt.
std::string check_header(const ObjectReader& reader, Step& step) {
  if (const std::uint64_t format = reader.number("format"); format != kFormat) {
    reader.refuse("it has format {}, this program reads format {}; use a newer one", format, kFormat);
  }
  step = reader.number("step");
  const std::string& attempt = reader.text("attempt");
  if (!is_valid_attempt(attempt)) reader.refuse("attempt {} is not a plain name", shown(attempt));
  return attempt;
}

TensorInfo parse_tensor(const json& object, const std::string& origin, std::uint64_t& total) {
  const ObjectReader reader(object, origin);
  TensorInfo tensor{.name = reader.text("name")};
  const std::string& type = reader.text("dtype");
  const std::optional<DType> dtype = dtype_from_name(type);
  if (!dtype) reader.refuse("tensor {} has unknown dtype {}", shown(tensor.name), shown(type));
  tensor.dtype = *dtype;
  if (reader.list("shape").size() > kMaxDimensions) {
    reader.refuse("tensor {} has over {} dimensions", shown(tensor.name), kMaxDimensions);
  }
  for (const std::uint64_t dimension : reader.numbers("shape", kMostInt64)) {
    tensor.shape.push_back(static_cast<std::int64_t>(dimension));
  }
  const std::optional<std::uint64_t> bytes = byte_size(tensor.shape, tensor.dtype);
  if (!bytes || __builtin_add_overflow(total, *bytes, &total)) {
    reader.refuse("tensor {} is impossibly large", shown(tensor.name));
  }
  return tensor;
}

PieceInfo parse_piece(const json& object, const std::string& origin) {
  const ObjectReader reader(object, origin);
  PieceInfo piece{
      .tensor = reader.text("tensor"), .offset = reader.number("offset"), .length = reader.number("length")};
  std::uint64_t end = 0;
  if (piece.length == 0 || __builtin_add_overflow(piece.offset, piece.length, &end)) {
    reader.refuse("a piece of {} has {} bytes from {} on", shown(piece.tensor), piece.length, piece.offset);
  }
  return piece;
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string model_tensor(std::string_view parameter) { return fmt::format("model/{}", parameter); }

std::string buffer_tensor(std::string_view buffer) { return fmt::format("buffer/{}", buffer); }

std::string optimizer_tensor(std::string_view parameter, std::string_view state) {
  return fmt::format("optimizer/{}/{}", parameter, state);
}

std::uint64_t bytes_of(const TensorInfo& tensor) {
  const std::optional<std::uint64_t> bytes = byte_size(tensor.shape, tensor.dtype);
  if (!bytes) fail<InvalidArgument>("tensor '{}' has an impossible shape", tensor.name);
  return *bytes;
}

std::string step_folder_name(Step step) { return fmt::format("step-{:09}", step); }

std::optional<Step> parse_step_folder(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Step step = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return step_folder_name(step) == name ? std::optional(step) : std::nullopt;
}

std::string part_stem(std::uint32_t part, std::uint32_t parts, std::string_view attempt) {
  return fmt::format("part-{}-of-{}.{}", part, parts, attempt);
}

bool is_valid_attempt(std::string_view attempt) {
  return !attempt.empty() && attempt.size() <= 64 && std::ranges::all_of(attempt, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::string encode(const PartIndex& index) {
  json pieces = json::array();
  for (const PieceInfo& piece : index.pieces) {
    pieces.push_back({{"tensor", piece.tensor}, {"offset", piece.offset}, {"length", piece.length}});
  }
  return seal(kIndexKind, {{"format", kFormat},
                           {"step", index.step},
                           {"attempt", index.attempt},
                           {"part", index.part},
                           {"parts", index.parts},
                           {"block_bytes", index.block_bytes},
                           {"bytes", index.bytes},
                           {"pieces", std::move(pieces)},
                           {"crc32c", index.crcs}});
}

std::string encode(const Manifest& manifest) {
  json tensors = json::array();
  for (const TensorInfo& tensor : manifest.tensors) {
    tensors.push_back({{"name", tensor.name}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}});
  }
  json parts = json::array();
  for (const PartEntry& part : manifest.parts) {
    parts.push_back({{"bytes", part.bytes}, {"index_sha256", part.index_sha256}});
  }
  return seal(kManifestKind, {{"format", kFormat},
                              {"step", manifest.step},
                              {"attempt", manifest.attempt},
                              {"written_ms", manifest.written_ms},
                              {"score", manifest.score ? json(*manifest.score) : json()},
                              {"tensors", std::move(tensors)},
                              {"parts", std::move(parts)},
                              {"meta", manifest.meta}});
}

PartIndex parse_part_index(std::string_view text, const std::string& origin) {
  const json body = unseal(kIndexKind, text, origin);
  const ObjectReader reader(body, origin);
  PartIndex index;
  index.attempt = check_header(reader, index.step);
  index.parts = static_cast<std::uint32_t>(reader.number("parts", kMaxParts));
  index.part = static_cast<std::uint32_t>(reader.number("part", kMaxParts));
  if (index.part >= index.parts) reader.refuse("it is part {} of {}", index.part, index.parts);
  index.block_bytes = reader.number("block_bytes", kMaxBlockBytes);
  if (index.block_bytes == 0) reader.refuse("its blocks have no bytes");
  index.bytes = reader.number("bytes");
  std::uint64_t covered = 0;
  for (const json& object : reader.list("pieces")) {
    index.pieces.push_back(parse_piece(object, origin));
    if (__builtin_add_overflow(covered, index.pieces.back().length, &covered)) reader.refuse("its pieces have no end");
  }
  if (covered != index.bytes) reader.refuse("its pieces have {} bytes, expected {}", covered, index.bytes);
  for (const std::uint64_t crc : reader.numbers("crc32c", ~std::uint32_t{0})) {
    index.crcs.push_back(static_cast<std::uint32_t>(crc));
  }
  const std::uint64_t blocks = index.bytes / index.block_bytes + (index.bytes % index.block_bytes != 0 ? 1 : 0);
  if (index.crcs.size() != blocks) reader.refuse("it has {} checksums for {} blocks", index.crcs.size(), blocks);
  return index;
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  json body = unseal(kManifestKind, text, origin);
  const ObjectReader reader(body, origin);
  Manifest manifest;
  manifest.attempt = check_header(reader, manifest.step);
  manifest.written_ms = static_cast<std::int64_t>(reader.number("written_ms", kMostInt64));
  if (const json& score = reader.at("score"); score.is_number()) {
    manifest.score = score.get<double>();
  } else if (!score.is_null()) {
    reader.refuse("'score' must be a number or null, not {}", score.type_name());
  }
  std::uint64_t total = 0;
  std::unordered_set<std::string_view> names;
  const auto& tensors = reader.list("tensors");
  manifest.tensors.reserve(tensors.size());
  for (const json& object : tensors) {
    const TensorInfo& tensor = manifest.tensors.emplace_back(parse_tensor(object, origin, total));
    if (!names.insert(tensor.name).second) reader.refuse("tensor {} appears twice", shown(tensor.name));
  }
  for (const json& object : reader.list("parts")) {
    const ObjectReader part(object, origin);
    manifest.parts.push_back({.bytes = part.number("bytes"), .index_sha256 = part.text("index_sha256")});
    if (!is_sha256(manifest.parts.back().index_sha256)) part.refuse("'index_sha256' is not a SHA-256");
  }
  if (manifest.parts.empty() || manifest.parts.size() > kMaxParts) {
    reader.refuse("it has {} parts, 1 to {} are possible", manifest.parts.size(), kMaxParts);
  }
  reader.at("meta");
  manifest.meta = std::move(body["meta"]);
  return manifest;
}

}  // namespace trireme::checkpoint
