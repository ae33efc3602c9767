#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/types.h"

namespace trireme::checkpoint {

// The contents of `<run>/checkpoints/step-000000120/`, for three writers of attempt "view-3":
//
//   part-0-of-3.view-3.bin    the pieces of writer 0, one after the other, nothing else
//   part-0-of-3.view-3.json   its index: which pieces, CRC-32C of each block; written once the .bin is on disk
//   …
//   manifest.json             tensors, parts, meta; written once all parts are. Without it, this is no checkpoint.
//
// Both documents are sealed: {"sha256":"<of the value that follows>","manifest":<value>} and a newline, so that a
// flipped bit anywhere in them is detected. File names are never read from a file; they are computed from numbers.

/// A tensor of the checkpoint; its bytes are little-endian, in row-major order.
struct TensorInfo {
  std::string name = {};  ///< `model/conv1.weight`, `optimizer/conv1.weight/0`, `buffer/bn.running_mean`
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};  ///< empty = one scalar

  bool operator==(const TensorInfo&) const = default;
};

/// Return the names of a parameter of the model, of a buffer, and of an array of a parameter's optimizer state
/// (optim::state_names).
/// All strategies use the same names, so that a run can continue with another one.
std::string model_tensor(std::string_view parameter);
std::string buffer_tensor(std::string_view buffer);
std::string optimizer_tensor(std::string_view parameter, std::string_view state);

/// Returns the tensor's size in bytes; throws InvalidArgument if a dimension is negative or the size exceeds 64 bits.
std::uint64_t bytes_of(const TensorInfo& tensor);

/// Some consecutive bytes of a tensor; pieces follow one another in a part.
struct PieceInfo {
  std::string tensor = {};
  std::uint64_t offset = 0;  ///< of its first byte in the tensor
  std::uint64_t length = 0;  ///< never 0

  bool operator==(const PieceInfo&) const = default;
};

struct PartIndex {
  Step step = 0;
  std::string attempt = {};
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  std::uint64_t block_bytes = 0;         ///< size of all blocks but the last, which may be shorter
  std::uint64_t bytes = 0;               ///< of the .bin file: the sum of all pieces
  std::vector<PieceInfo> pieces = {};    ///< in the order of their bytes
  std::vector<std::uint32_t> crcs = {};  ///< CRC-32C, by block

  bool operator==(const PartIndex&) const = default;
};

struct PartEntry {
  std::uint64_t bytes = 0;
  std::string index_sha256 = {};  ///< of the index file as a whole

  bool operator==(const PartEntry&) const = default;
};

struct Manifest {
  Step step = 0;
  std::string attempt = {};
  std::int64_t written_ms = 0;       ///< milliseconds since 1970 UTC
  std::optional<double> score = {};  ///< higher is better; nullopt: not measured
  std::vector<TensorInfo> tensors = {};
  std::vector<PartEntry> parts = {};  ///< at least one
  nlohmann::json meta = {};           ///< defined by the caller

  bool operator==(const Manifest&) const = default;
};

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::uint64_t kBlockBytes = 256 << 10;  ///< used for writing; fits in a core's cache
inline constexpr std::uint64_t kMaxDocumentBytes = 100'000'000;
inline constexpr std::uint32_t kMaxParts = 65'536;

/// Returns `step-000000120`, and parses it: nullopt unless `name` is exactly what a step gives.
std::string step_folder_name(Step step);
std::optional<Step> parse_step_folder(std::string_view name);

/// Returns `part-0-of-3.view-3`, to which `.bin` and `.json` are added.
std::string part_stem(std::uint32_t part, std::uint32_t parts, std::string_view attempt);

/// Returns whether `attempt` is valid in a file name: 1 to 64 letters, digits, '-', '_'.
bool is_valid_attempt(std::string_view attempt);

/// Return the documents as text, to be written. Throw InvalidArgument for what no reader would accept: text that is not
/// UTF-8, meta nested too deeply, more than kMaxDocumentBytes.
std::string encode(const PartIndex& index);
std::string encode(const Manifest& manifest);

/// Parse the documents. Nothing in `text` is trusted: throw Corrupt naming `origin` (the file) and what was expected
/// there; memory is proportional to `text`. A manifest's tensors have unique names and together less than 2^64 bytes;
/// an index has as many CRCs as blocks, and pieces that add up to its bytes.
PartIndex parse_part_index(std::string_view text, const std::string& origin);
Manifest parse_manifest(std::string_view text, const std::string& origin);

}  // namespace trireme::checkpoint
