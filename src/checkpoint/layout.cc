#include "checkpoint/layout.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/document.h"

namespace trireme::checkpoint {
namespace {

/// Throws Corrupt unless `extents` cover [0, bytes) exactly once.
void check_covered(const TensorInfo& tensor, std::span<const Extent> extents, const std::string& origin) {
  std::uint64_t covered = 0;
  const Extent* before = nullptr;
  for (const Extent& extent : extents) {
    if (extent.offset > covered) {
      fail<Corrupt>("{}: bytes {} to {} of {} are in no part", origin, covered, extent.offset - 1, shown(tensor.name));
    }
    if (extent.offset < covered) {
      fail<Corrupt>("{}: byte {} of {} is in part {} and again in part {}", origin, extent.offset, shown(tensor.name),
                    before->part, extent.part);
    }
    covered += extent.length;
    before = &extent;
  }
  if (const std::uint64_t bytes = bytes_of(tensor); covered < bytes) {
    fail<Corrupt>("{}: bytes {} to {} of {} are in no part", origin, covered, bytes - 1, shown(tensor.name));
  }
}

}  // namespace

std::vector<std::vector<Extent>> lay_out(std::span<const TensorInfo> tensors, std::span<const PartIndex> indexes,
                                         const std::string& origin) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < tensors.size(); ++i) numbers.emplace(tensors[i].name, i);
  std::vector<std::vector<Extent>> extents(tensors.size());
  for (const PartIndex& index : indexes) {
    std::uint64_t position = 0;
    for (const PieceInfo& piece : index.pieces) {
      const auto number = numbers.find(piece.tensor);
      if (number == numbers.end()) {
        fail<Corrupt>("{}: part {} holds {}, which is not among the tensors", origin, index.part, shown(piece.tensor));
      }
      const std::uint64_t bytes = bytes_of(tensors[number->second]);
      if (piece.offset > bytes || piece.length > bytes - piece.offset) {
        fail<Corrupt>("{}: part {} holds bytes {} to {} of {}, which has {}", origin, index.part, piece.offset,
                      piece.offset + piece.length - 1, shown(piece.tensor), bytes);
      }
      extents[number->second].push_back(
          {.offset = piece.offset, .length = piece.length, .part = index.part, .position = position});
      position += piece.length;
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::ranges::sort(extents[i], {}, &Extent::offset);
    check_covered(tensors[i], extents[i], origin);
  }
  return extents;
}

LoadedIndex load_index(FileSystem& files, const std::filesystem::path& folder, const PartKey& key) {
  const std::filesystem::path path = folder / (key.stem() + ".json");
  if (!files.size(path)) fail<Corrupt>("{} is missing; use another checkpoint (trireme ckpt ls)", path.string());
  const std::string text = files.read(path, kMaxDocumentBytes);
  LoadedIndex loaded{.index = parse_part_index(text, path.string())};
  const PartIndex& index = loaded.index;
  if (index.step != key.step || index.attempt != key.attempt || index.part != key.part || index.parts != key.parts) {
    fail<Corrupt>(
        "{} describes step {}, attempt '{}', part {} of {}; expected step {}, attempt '{}', part {} of {}: was "
        "it renamed or copied?",
        path.string(), index.step, index.attempt, index.part, index.parts, key.step, key.attempt, key.part, key.parts);
  }
  const std::filesystem::path data = folder / (key.stem() + ".bin");
  const std::optional<std::uint64_t> bytes = files.size(data);
  if (!bytes) fail<Corrupt>("{} is missing; use another checkpoint (trireme ckpt ls)", data.string());
  if (*bytes != index.bytes) fail<Corrupt>("{} has {} bytes, expected {}", data.string(), *bytes, index.bytes);
  Sha256 hash;
  hash.add(as_bytes(text));
  loaded.sha256 = hash.hex();
  return loaded;
}

PartIndex load_part(FileSystem& files, const std::filesystem::path& folder, const Manifest& manifest,
                    std::uint32_t part) {
  const PartKey key{.step = manifest.step,
                    .attempt = manifest.attempt,
                    .part = part,
                    .parts = static_cast<std::uint32_t>(manifest.parts.size())};
  LoadedIndex loaded = load_index(files, folder, key);
  const PartEntry& expected = manifest.parts[part];
  if (loaded.sha256 != expected.index_sha256 || loaded.index.bytes != expected.bytes) {
    fail<Corrupt>("{} is not the index that {} lists: its SHA-256 is {}…, expected {}…; it was replaced",
                  (folder / (key.stem() + ".json")).string(), kManifestName, loaded.sha256.substr(0, 12),
                  expected.index_sha256.substr(0, 12));
  }
  return std::move(loaded.index);
}

Manifest load_manifest(FileSystem& files, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestName;
  if (!files.size(path)) {
    fail<Corrupt>("{} holds no {}: it is not a complete checkpoint; see trireme ckpt ls", folder.string(),
                  kManifestName);
  }
  Manifest manifest = parse_manifest(files.read(path, kMaxDocumentBytes), path.string());
  // A copy under another name is still a checkpoint; under the name of another step it would mislead.
  const std::optional<Step> named = parse_step_folder(folder.filename().string());
  if (named && *named != manifest.step) {
    fail<Corrupt>("{} is of step {}: was the folder renamed?", path.string(), manifest.step);
  }
  return manifest;
}

}  // namespace trireme::checkpoint
