#include "data/open/kind.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/ranges.h>

#include "trireme/open.h"

#include "base/error.h"
#include "base/suggest.h"
#include "data/files/byte_source.h"
#include "data/files/shards.h"

namespace trireme::data {
namespace {

struct Ending {
  std::string_view text;
  SourceKind kind;
};
constexpr std::array kEndings{Ending{".csv", SourceKind::kTable},         Ending{".tsv", SourceKind::kTable},
                              Ending{".libsvm", SourceKind::kLibsvm},     Ending{".svm", SourceKind::kLibsvm},
                              Ending{".npy", SourceKind::kNpy},           Ending{".npz", SourceKind::kNpz},
                              Ending{".bin", SourceKind::kTokens},        Ending{".txt", SourceKind::kText},
                              Ending{".tfrecord", SourceKind::kTfRecord}, Ending{".tfrecords", SourceKind::kTfRecord},
                              Ending{".tar", SourceKind::kWebDataset}};
constexpr std::string_view kFiles =
    "a folder (IDX, CIFAR, images), or files that end in .csv .tsv .libsvm .svm .npy .npz .bin .txt .tfrecord or .tar, "
    "plain or with .gz or .zst";

std::optional<SourceKind> kind_by_name(std::string_view name) {
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  }
  for (const Ending& ending : kEndings) {
    if (name.ends_with(ending.text)) return ending.kind;
  }
  return std::nullopt;
}

/// By the first bytes, of what is unpacked.
std::optional<SourceKind> kind_by_content(const std::filesystem::path& path) {
  std::array<std::byte, 512> bytes;
  ByteSource source(path);
  const std::string_view text = as_text(Bytes(bytes).first(source.read(bytes)));
  if (text.starts_with("\x93NUMPY")) return SourceKind::kNpy;
  if (text.starts_with("PK\x03\x04")) return SourceKind::kNpz;
  if (text.size() == bytes.size() && text.substr(257, 5) == "ustar") return SourceKind::kWebDataset;
  // A record's length is eight bytes, of which the upper ones are zero in any real file; text has no zeros.
  if (text.size() > 12 && text.substr(4, 4) == std::string_view("\0\0\0\0", 4)) return SourceKind::kTfRecord;
  return std::nullopt;
}

bool has_file(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  return std::ranges::any_of(std::array{"", ".gz", ".zst"}, [&](const char* packed) {
    return std::filesystem::is_regular_file(folder / (name + packed), ignored);
  });
}

SourceKind kind_of_folder(const std::filesystem::path& folder) {
  if (has_file(folder, "train-images-idx3-ubyte")) return SourceKind::kIdxFolder;
  if (has_file(folder, "data_batch_1.bin") || has_file(folder, "train.bin")) return SourceKind::kCifarFolder;
  std::error_code problem;
  bool sub_folders = false;
  std::vector<std::string> readable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    sub_folders = sub_folders || entry.is_directory();
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() && kind_by_name(name) && readable.size() < 8) readable.push_back(name);
  }
  if (problem) fail<IoError>("cannot read {}: {}", folder.string(), problem.message());
  if (sub_folders) return SourceKind::kImageFolder;
  std::ranges::sort(readable);
  fail<InvalidArgument>(
      "the folder {} has neither IDX files (train-images-idx3-ubyte), nor CIFAR's (data_batch_1.bin), nor a sub-folder "
      "of images for each class{}",
      folder.string(), readable.empty() ? "" : fmt::format("; give one of its files: {}", fmt::join(readable, ", ")));
}

/// Returns ` (did you mean 'flights.csv'?)`: one of the names, or a file in the same folder.
std::string meant(const std::string& spec) {
  const std::filesystem::path path = spec;
  if (!path.has_parent_path()) {
    if (std::string named = did_you_mean(spec, named_data()); !named.empty()) return named;
  }
  std::vector<std::string> files;
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (files.size() == 1000) break;
    files.push_back(entry.path().filename().string());
  }
  return did_you_mean(path.filename().string(), files);
}

[[noreturn]] void refuse_unknown(const std::string& spec) {
  fail<InvalidArgument>("there is no data set '{}'{}: use {}, {}", spec, meant(spec), fmt::join(named_data(), ", "),
                        kFiles);
}

std::vector<std::string> split_at_commas(const std::string& spec) {
  std::vector<std::string> parts;
  std::string_view left = spec;
  while (true) {
    const std::size_t comma = left.find(',');
    parts.emplace_back(left.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    left.remove_prefix(comma + 1);
  }
}

/// Whether there is such a file, with or without the end that a packed one has.
bool file_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) || has_file(path.parent_path(), path.filename().string());
}

}  // namespace

const std::vector<std::string>& named_data() {
  static const std::vector<std::string> names{"fashion-mnist", "synthetic"};
  return names;
}

const char* name_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::kFashionMnist:
      return "fashion-mnist";
    case SourceKind::kSynthetic:
      return "synthetic";
    case SourceKind::kIdxFolder:
      return "IDX folder";
    case SourceKind::kCifarFolder:
      return "CIFAR folder";
    case SourceKind::kImageFolder:
      return "image folder";
    case SourceKind::kTable:
      return "table";
    case SourceKind::kLibsvm:
      return "LIBSVM";
    case SourceKind::kNpy:
      return "npy";
    case SourceKind::kNpz:
      return "npz";
    case SourceKind::kTokens:
      return "tokens";
    case SourceKind::kText:
      return "text";
    case SourceKind::kTfRecord:
      return "TFRecord";
    case SourceKind::kWebDataset:
      return "WebDataset";
  }
  return "";
}

bool data_exists(const std::string& spec) {
  if (file_exists(spec)) return true;
  try {
    const std::vector<std::string> pattern = {spec};
    return file_exists(expand(pattern).front());
  } catch (const InvalidArgument&) {
    return false;
  }
}

Located locate(const std::string& spec) {
  if (spec == "fashion-mnist") return {.kind = SourceKind::kFashionMnist};
  if (spec == "synthetic") return {.kind = SourceKind::kSynthetic};
  std::error_code ignored;
  if (std::filesystem::is_directory(spec, ignored)) return {.kind = kind_of_folder(spec), .files = {spec}};
  Located located;
  located.files = file_exists(spec) ? std::vector<std::string>{spec} : split_at_commas(spec);
  std::optional<SourceKind> kind;
  for (const std::string& file : located.files) {
    if (file.empty() || (file.find_first_of("*?[") == std::string::npos && !file_exists(file)))
      refuse_unknown(file.empty() ? spec : file);
    const std::vector<std::string> pattern = {file};
    const std::filesystem::path first = expand(pattern).front();
    const std::optional<SourceKind> found =
        kind_by_name(first.string()) ? kind_by_name(first.string()) : kind_by_content(first);
    if (!found) {
      fail<InvalidArgument>("{} is of no kind that is read: expected {}", first.string(), kFiles);
    }
    if (kind && *kind != *found) {
      fail<InvalidArgument>("{} is {}, and {} is {}: give files of one kind", located.files.front(), name_of(*kind),
                            file, name_of(*found));
    }
    kind = found;
  }
  located.kind = *kind;
  return located;
}

}  // namespace trireme::data
