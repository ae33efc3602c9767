#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme::data {

/// What data is, as far as it decides who reads it.
enum class SourceKind {
  kFashionMnist,
  kSynthetic,
  kIdxFolder,
  kCifarFolder,
  kImageFolder,
  kTable,
  kLibsvm,
  kNpy,
  kNpz,
  kTokens,
  kText,
  kTfRecord,
  kWebDataset,
};

/// Returns `table`, `image folder`; the text lives forever.
const char* name_of(SourceKind kind);

/// What a request names.
struct Located {
  SourceKind kind = SourceKind::kTable;
  std::vector<std::string> files = {};  ///< paths or patterns; of a folder, that one
};

/// Finds out what `spec` is: a name, a folder by its content, files by the end of their names or by their first bytes.
/// Throws InvalidArgument with what was probably meant if there is no such thing, or it is of no kind that is read.
Located locate(const std::string& spec);

/// Whether there is a file or folder of this name, with or without the end that a packed one has; of a pattern, whether
/// a file matches.
bool data_exists(const std::string& spec);

}  // namespace trireme::data
