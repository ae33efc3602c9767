#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/arrays/npy.h"
#include "data/arrays/zip.h"
#include "data/files/random_access_file.h"
#include "data/files/shards.h"
#include "data/tables/column_source.h"

namespace trireme::data {
namespace {

constexpr std::size_t kMostRowsRead = 256 * kKiB;  // of neighbouring rows, in one read

/// An array in a file: one field of the samples.
struct NpyArray {
  std::string name = {};
  std::shared_ptr<const RandomAccessFile> file = {};
  std::uint64_t begin = 0;  ///< offset of its values
  NpyHeader header = {};
  std::uint64_t first = 0;  ///< the number that a sample begins with here
  std::uint64_t count = 0;  ///< numbers of a sample here; 0 = all

  std::uint64_t rows() const { return static_cast<std::uint64_t>(header.shape.front()); }
  std::uint64_t row_elements() const {
    std::uint64_t elements = 1;
    for (std::size_t i = 1; i < header.shape.size(); ++i) elements *= static_cast<std::uint64_t>(header.shape[i]);
    return elements;
  }
};

NpyArray open_array(std::string name, std::shared_ptr<const RandomAccessFile> file, std::uint64_t begin,
                    std::uint64_t size) {
  std::vector<std::byte> front(static_cast<std::size_t>(std::min<std::uint64_t>(size, kMostNpyHeader)));
  file->read(begin, front);
  NpyHeader header = parse_npy(front, size, file->at(begin));
  return {.name = std::move(name), .file = std::move(file), .begin = begin + header.begin, .header = std::move(header)};
}

Schema schema_of(const std::vector<NpyArray>& arrays) {
  constexpr std::array<std::string_view, 5> kTargets{"y", "label", "labels", "target", "targets"};
  std::vector<Field> fields;
  for (const NpyArray& array : arrays) {
    const bool target = std::ranges::find(kTargets, array.name) != kTargets.end();
    std::vector<std::int64_t> shape(array.header.shape.begin() + 1, array.header.shape.end());
    if (array.count > 0) shape = {static_cast<std::int64_t>(array.count)};
    fields.push_back({.name = array.name,
                      .dtype = array.header.dtype,
                      .shape = std::move(shape),
                      .role = target ? Role::kTarget : Role::kInput});
  }
  return fields;
}

class Arrays final : public Dataset, public ColumnSource {
 public:
  Arrays(std::string name, std::vector<NpyArray> arrays)
      : Dataset(schema_of(arrays)), name_(std::move(name)), arrays_(std::move(arrays)) {
    for (const NpyArray& array : arrays_) {
      if (array.rows() == arrays_.front().rows()) continue;
      fail<InvalidArgument>("{}: '{}' has {} rows, and '{}' has {}: each row is a sample", name_, arrays_.front().name,
                            arrays_.front().rows(), array.name, array.rows());
    }
    if (arrays_.front().rows() == 0) fail<Corrupt>("{}: arrays without rows", arrays_.front().file->at(0));
  }

  std::uint64_t size() const override { return arrays_.front().rows(); }
  std::string describe() const override { return name_ + ": " + summary(); }

  DatasetPtr only_columns(std::size_t field, std::uint64_t first, std::uint64_t count) const override {
    std::vector<NpyArray> arrays = arrays_;
    arrays[field].first += first;
    arrays[field].count = count;
    return std::make_shared<Arrays>(name_, std::move(arrays));
  }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    for (std::size_t field = 0; field < arrays_.size(); ++field) {
      const NpyArray& array = arrays_[field];
      const std::size_t number = size_of(schema()[field].dtype);
      const std::size_t each = schema()[field].elements() * number;
      const std::uint64_t row = array.row_elements() * number;  // in the file
      MutableBytes to = out.bytes(field);
      for (std::size_t i = 0; i < indices.size();) {
        std::size_t run = 1;
        while (row == each && i + run < indices.size() && indices[i + run] == indices[i] + run &&
               (run + 1) * each <= kMostRowsRead) {
          ++run;
        }
        array.file->read(array.begin + indices[i] * row + array.first * number, to.first(run * each));
        to = to.subspan(run * each);
        i += run;
      }
    }
  }

  std::string name_;
  std::vector<NpyArray> arrays_;
};

void check_has_rows(const NpyArray& array, const std::string& where) {
  if (array.header.shape.empty()) fail<InvalidArgument>("{} is a single number: expected an array with rows", where);
}

}  // namespace

DatasetPtr load_npy(const std::vector<std::string>& files) {
  std::vector<NpyArray> arrays;
  for (const std::filesystem::path& path : expand(files)) {
    auto file = std::make_shared<const RandomAccessFile>(path);
    const std::uint64_t size = file->size();
    const std::string name = path.filename().string();
    arrays.push_back(open_array(name.substr(0, name.find('.')), std::move(file), 0, size));
    check_has_rows(arrays.back(), path.string());
  }
  std::string name = arrays.front().file->path().string();
  return std::make_shared<Arrays>(std::move(name), std::move(arrays));
}

DatasetPtr load_npz(const std::filesystem::path& path) {
  const auto zip = std::make_shared<const RandomAccessFile>(path);
  if (zip->size() == 0) fail<Corrupt>("{}: the file is empty, expected an .npz", zip->at(0));
  std::vector<NpyArray> arrays;
  for (const ZipEntry& entry : read_zip_directory(*zip)) {
    if (!entry.name.ends_with(".npy")) continue;
    const ZipContent content = open_zip_entry(zip, entry);
    NpyArray array = open_array(entry.name.substr(0, entry.name.size() - 4), content.file, content.begin, entry.size);
    if (!array.header.shape.empty()) arrays.push_back(std::move(array));
  }
  if (arrays.empty()) fail<Corrupt>("{}: an .npz file without arrays", zip->path().string());
  std::ranges::sort(arrays, {}, &NpyArray::name);
  return std::make_shared<Arrays>(path.string(), std::move(arrays));
}

}  // namespace trireme::data
