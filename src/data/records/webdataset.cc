#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/classes.h"
#include "data/files/shards.h"
#include "data/records/parts.h"
#include "data/records/record_index.h"
#include "data/records/tar.h"
#include "data/records/tar_samples.h"
#include "data/shape.h"

namespace trireme::data {
namespace {

constexpr std::uint64_t kSamplesLookedAt = 16;  // they tell what the fields are

/// One tar, and where its samples are.
class TarShard {
 public:
  explicit TarShard(const std::filesystem::path& path)
      : file_(path), offsets_(load_index(file_, kTarSamples, [this] { return scan_tar_samples(file_); })) {}

  std::uint64_t size() const { return offsets_.size() - 1; }
  std::string at(std::uint64_t sample) const { return file_.at(offsets_[sample]); }
  const std::filesystem::path& path() const { return file_.path(); }

  std::vector<Part> read(std::uint64_t sample, const ImageSize& size) const {
    const std::uint64_t begin = offsets_[sample];
    std::vector<std::byte> bytes(static_cast<std::size_t>(offsets_[sample + 1] - begin));
    file_.read(begin, bytes);
    const auto fetch = [&](std::uint64_t offset, std::size_t count) {
      return Bytes(bytes).subspan(static_cast<std::size_t>(offset)).first(std::min(count, bytes.size() - offset));
    };
    const auto place = [&](std::uint64_t offset) { return file_.at(begin + offset); };
    TarReader reader(bytes.size(), fetch, place);
    std::vector<Part> parts;
    TarEntry entry;
    while (reader.next(entry)) {
      const TarMember name = split_member_name(entry.name);
      if (name.extension.empty()) continue;
      const std::string where = fmt::format("{}: {}", place(entry.begin), entry.name);
      decode_part(name.extension, fetch(entry.begin, static_cast<std::size_t>(entry.size)), size, where, parts);
    }
    return parts;
  }

 private:
  RandomAccessFile file_;
  Offsets offsets_;
};

/// Makes `field` one that `part` fits too: the same shape, or another length.
void widen_field(Field& field, const Part& part, const std::string& where) {
  const bool same_type = field.dtype == part.dtype && field.shape.size() == part.shape.size();
  const bool same_rest = same_type && (field.shape.empty() ||
                                       std::equal(field.shape.begin() + 1, field.shape.end(), part.shape.begin() + 1));
  if (!same_rest) {
    fail<Corrupt>("{}: '{}' is {} {}, but {} before: it differs in more than its length{}", where, part.name,
                  name_of(part.dtype), shape_text(part.shape), field.describe(),
                  part.name == "image" ? "; give a size to scale images to" : "");
  }
  if (!field.shape.empty() && field.shape.front() != part.shape.front()) field.shape.front() = kVaries;
}

Schema find_schema(const TarShard& shard, const WebDatasetOptions& options) {
  std::vector<Field> fields;
  std::string first_damage;
  for (std::uint64_t sample = 0; sample < std::min(kSamplesLookedAt, shard.size()); ++sample) {
    std::vector<Part> parts;
    try {
      parts = shard.read(sample, options.size);
    } catch (const Corrupt& problem) {  // refused when it is read; the others tell what the fields are
      if (first_damage.empty()) first_damage = problem.what();
      continue;
    }
    const bool first = fields.empty();
    for (const Part& part : parts) {
      const auto known = std::ranges::find(fields, part.name, &Field::name);
      if (known != fields.end()) {
        widen_field(*known, part, shard.at(sample));
      } else if (first) {
        fields.push_back({.name = part.name,
                          .dtype = part.dtype,
                          .shape = part.shape,
                          .role = part.name == "label" ? Role::kTarget : Role::kInput});
        if (part.name == "txt" || (!part.shape.empty() && part.shape.front() == 0))
          fields.back().shape.front() = kVaries;
      }
    }
  }
  if (fields.empty() && !first_damage.empty()) fail<Corrupt>("{}", first_damage);
  if (fields.empty()) fail<Corrupt>("{}: the first sample has no file of a kind that is read", shard.at(0));
  std::ranges::sort(fields, {}, &Field::name);
  const auto label = std::ranges::find(fields, "label", &Field::name);
  if (options.classes > 0) {
    if (label == fields.end())
      fail<InvalidArgument>("{}: classes are given, but samples have no .cls", shard.path().string());
    label->classes = {options.classes};
  }
  return fields;
}

class WebDataset final : public Dataset {
 public:
  WebDataset(std::vector<TarShard> shards, Schema schema, const ImageSize& size)
      : Dataset(std::move(schema)), shards_(std::move(shards)), image_size_(size) {
    for (const TarShard& shard : shards_) ends_.push_back(this->size() + shard.size());
  }

  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string describe() const override {
    const std::string more = shards_.size() > 1 ? fmt::format(" and {} more", shards_.size() - 1) : "";
    return fmt::format("{}{}: {}", shards_.front().path().string(), more, summary());
  }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    std::vector<Part> parts(indices.size() * schema().size());
    std::vector<std::int64_t> longest(schema().size(), 0);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::span row(&parts[i * schema().size()], schema().size());
      read_sample(indices[i], row);
      for (std::size_t field = 0; field < row.size(); ++field) {
        if (schema()[field].varies()) longest[field] = std::max(longest[field], row[field].shape.front());
      }
    }
    out.make_room(schema(), indices.size(), longest);
    for (std::size_t field = 0; field < schema().size() && !indices.empty(); ++field) {
      const std::size_t each = out.bytes(field).size() / indices.size();
      for (std::size_t i = 0; i < indices.size(); ++i) {
        const Part& part = parts[i * schema().size() + field];
        if (!part.bytes.empty()) {
          std::memcpy(out.bytes(field).data() + i * each, part.bytes.data(), part.bytes.size());
        }
        if (schema()[field].varies()) out.lengths(field)[i] = part.shape.front();
      }
      if (schema()[field].varies()) out.pad(field);
    }
  }

  /// Puts the parts of a sample into the order of the schema, and checks that they are all there and fit.
  void read_sample(std::uint64_t index, std::span<Part> row) const {
    const auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const TarShard& shard = shards_[number];
    const std::uint64_t sample = index - (number == 0 ? 0 : ends_[number - 1]);
    for (Part& part : shard.read(sample, image_size_)) {
      if (const auto field = schema().find(part.name)) row[*field] = std::move(part);
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Field& field = schema()[i];
      const auto skipped = field.varies() ? 1 : 0;
      if (row[i].name.empty()) fail<Corrupt>("{}: sample {} has no '{}'", shard.at(sample), index, field.name);
      if (row[i].dtype != field.dtype || row[i].shape.size() != field.shape.size() ||
          !std::equal(field.shape.begin() + skipped, field.shape.end(), row[i].shape.begin() + skipped)) {
        fail<Corrupt>("{}: '{}' of sample {} is {} {}, expected {}", shard.at(sample), field.name, index,
                      name_of(row[i].dtype), shape_text(row[i].shape), field.describe());
      }
      try {
        check_classes(field, row[i].bytes, shard.at(sample));
      } catch (const InvalidArgument& problem) {
        throw Corrupt(problem.what());
      }
    }
  }

  std::vector<TarShard> shards_;
  std::vector<std::uint64_t> ends_;
  ImageSize image_size_;
};

}  // namespace

DatasetPtr load_webdataset(const std::vector<std::string>& files, const WebDatasetOptions& options) {
  std::vector<TarShard> shards;
  for (const std::filesystem::path& path : expand(files)) shards.emplace_back(path);
  Schema schema = find_schema(shards.front(), options);
  return std::make_shared<WebDataset>(std::move(shards), std::move(schema), options.size);
}

}  // namespace trireme::data
