#include <algorithm>
#include <string_view>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/files/random_access_file.h"
#include "data/files/shards.h"

namespace trireme::data {
namespace {

constexpr std::int64_t kCifarSide = 32;
constexpr std::uint64_t kCifarImage = 3 * kCifarSide * kCifarSide;

/// The two sets in this format.
struct CifarKind {
  std::uint64_t label_bytes;  ///< before each image; the last of them is the label
  std::int64_t classes;
};
constexpr CifarKind kCifar10{1, 10};
constexpr CifarKind kCifar100{2, 100};

/// Images of neighbouring samples are read together, up to this many bytes.
constexpr std::size_t kCifarMostRead = 256 * kKiB;

Schema schema_of(const CifarKind& kind, std::vector<std::string> names) {
  return {{.name = "image", .dtype = DType::kU8, .shape = {3, kCifarSide, kCifarSide}},
          {.name = "label",
           .dtype = DType::kI64,
           .role = Role::kTarget,
           .classes = {kind.classes},
           .class_names = std::move(names)}};
}

class CifarBinary final : public Dataset {
 public:
  CifarBinary(std::vector<RandomAccessFile> files, const CifarKind& kind, std::vector<std::string> names)
      : Dataset(schema_of(kind, std::move(names))),
        files_(std::move(files)),
        kind_(kind),
        each_(kind.label_bytes + kCifarImage) {
    for (const RandomAccessFile& file : files_) {
      if (file.size() == 0 || file.size() % each_ != 0) {
        fail<Corrupt>("{}: the file has {} bytes, expected a multiple of {}: one image with its label each",
                      file.at(file.size() / each_ * each_), file.size(), each_);
      }
      ends_.push_back(size() + file.size() / each_);
    }
  }

  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string describe() const override { return files_.front().path().parent_path().string() + ": " + summary(); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    std::byte* to = out.bytes(0).data();
    const std::span<std::int64_t> labels = out.values<std::int64_t>(1);
    std::vector<std::byte> buffer;
    for (std::size_t i = 0; i < indices.size();) {
      const auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, indices[i]) - ends_.begin());
      const std::uint64_t first = number == 0 ? 0 : ends_[number - 1];
      std::size_t run = 1;
      while (i + run < indices.size() && indices[i + run] == indices[i] + run && indices[i + run] < ends_[number] &&
             (run + 1) * each_ <= kCifarMostRead) {
        ++run;
      }
      buffer.resize(run * each_);
      const std::uint64_t offset = (indices[i] - first) * each_;
      files_[number].read(offset, buffer);
      for (std::size_t k = 0; k < run; ++k, to += kCifarImage) {
        const std::byte* const record = buffer.data() + k * each_;
        labels[i + k] = std::to_integer<std::int64_t>(record[kind_.label_bytes - 1]);
        if (labels[i + k] >= kind_.classes) {
          fail<Corrupt>("{}: label {}, expected 0 to {}", files_[number].at(offset + k * each_ + kind_.label_bytes - 1),
                        labels[i + k], kind_.classes - 1);
        }
        std::copy_n(record + kind_.label_bytes, kCifarImage, to);
      }
      i += run;
    }
  }

  std::vector<RandomAccessFile> files_;
  CifarKind kind_;
  std::uint64_t each_;  ///< bytes of a sample
  std::vector<std::uint64_t> ends_;
};

/// One name a line; empty if there is no such file.
std::vector<std::string> read_names(const std::filesystem::path& path, std::int64_t expected) {
  if (!std::filesystem::exists(path)) return {};
  std::vector<std::string> names;
  const std::string text = read_file(path);
  for (std::string_view left = text; !left.empty();) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) names.emplace_back(line);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  if (std::ssize(names) != expected) {
    fail<Corrupt>("{}: {} names of classes, expected {}", path.string(), names.size(), expected);
  }
  return names;
}

DatasetPtr load_part(const std::vector<std::string>& files, const CifarKind& kind,
                     const std::vector<std::string>& names) {
  std::vector<RandomAccessFile> opened;
  for (const std::filesystem::path& path : expand(files)) opened.emplace_back(path);
  return std::make_shared<CifarBinary>(std::move(opened), kind, names);
}

}  // namespace

Split load_cifar_binary(const std::filesystem::path& folder) {
  const bool hundred = !std::filesystem::exists(folder / "data_batch_1.bin") &&
                       !std::filesystem::exists(folder / "data_batch_1.bin.gz") &&
                       std::filesystem::exists(folder / "train.bin");
  const CifarKind& kind = hundred ? kCifar100 : kCifar10;
  const auto names = read_names(folder / (hundred ? "fine_label_names.txt" : "batches.meta.txt"), kind.classes);
  const auto file = [&](const char* name) { return (folder / name).string(); };
  return {.train = load_part({file(hundred ? "train.bin" : "data_batch_*.bin*")}, kind, names),
          .test = load_part({file(hundred ? "test.bin" : "test_batch.bin")}, kind, names)};
}

}  // namespace trireme::data
