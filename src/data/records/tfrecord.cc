#include <algorithm>
#include <map>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/classes.h"
#include "data/files/shards.h"
#include "data/records/example.h"
#include "data/records/tfrecord_file.h"
#include "data/workspace.h"

namespace trireme::data {
namespace {

constexpr std::uint64_t kLookedAt = 64;           // records that tell what the fields are
constexpr std::size_t kMostTogether = 128 << 10;  // of neighbouring records, in one read: as in tokens.cc

DType dtype_of(Feature::Kind kind) {
  return kind == Feature::Kind::kFloat ? DType::kF32 : kind == Feature::Kind::kInt64 ? DType::kI64 : DType::kU8;
}

Feature::Kind kind_for(DType dtype, Feature::Kind found) {
  if (found == Feature::Kind::kBytes || found == Feature::Kind::kNone) return found;
  return dtype == DType::kF32   ? Feature::Kind::kFloat
         : dtype == DType::kI64 ? Feature::Kind::kInt64
                                : Feature::Kind::kBytes;
}

/// What was seen of a feature in the first records.
struct Seen {
  Feature::Kind kind = Feature::Kind::kNone;
  std::size_t count = 0;
  std::uint64_t records = 0;
  bool varies = false;
};

using SeenFeatures = std::map<std::string, Seen, std::less<>>;

void look_at(std::string_view name, const Feature& feature, SeenFeatures& features) {
  const std::size_t count = count_values(feature);
  const auto [entry, is_new] = features.try_emplace(std::string(name));
  Seen& seen = entry->second;
  if (seen.kind == Feature::Kind::kNone) seen.kind = feature.kind;
  if (feature.kind != Feature::Kind::kNone && feature.kind != seen.kind) {
    fail<Corrupt>("feature '{}' is {}, but {} before", name, name_of(feature.kind), name_of(seen.kind));
  }
  seen.varies = seen.varies || (!is_new && seen.count != count);
  seen.count = count;
  ++seen.records;
}

void look_at_record(const TfRecordFile& file, std::uint64_t record, std::vector<std::byte>& buffer,
                    SeenFeatures& features) {
  buffer.resize(file.span_of(record, 1));
  std::vector<Bytes> records;
  file.read(record, 1, buffer, records);
  try {
    parse_example(records.front(),
                  [&](std::string_view name, const Feature& feature) { look_at(name, feature, features); });
  } catch (const Corrupt& problem) {
    fail<Corrupt>("{}: record {}: {}", file.at(record), record, problem.what());
  }
}

std::vector<Field> find_fields(const TfRecordFile& file) {
  SeenFeatures features;
  const std::uint64_t looked_at = std::min(kLookedAt, file.size());
  std::vector<std::byte> buffer;
  std::string first_damage;
  std::uint64_t sound = 0;
  for (std::uint64_t record = 0; record < looked_at; ++record) {
    try {
      look_at_record(file, record, buffer, features);
      ++sound;
    } catch (const Corrupt& problem) {  // refused when it is read; the others tell what the fields are
      if (first_damage.empty()) first_damage = problem.what();
    }
  }
  if (sound == 0) fail<Corrupt>("{}", first_damage);
  std::vector<Field> fields;
  for (const auto& [name, seen] : features) {
    if (seen.kind == Feature::Kind::kNone || name.empty()) continue;
    Field field{.name = name, .dtype = dtype_of(seen.kind)};
    if (name == "label") field.role = Role::kTarget;
    if (seen.varies || seen.records < sound || seen.count == 0) {
      field.shape = {kVaries};
    } else if (seen.count > 1 || seen.kind == Feature::Kind::kBytes) {
      field.shape = {static_cast<std::int64_t>(seen.count)};
    }
    fields.push_back(std::move(field));
  }
  if (fields.empty()) fail<Corrupt>("{}: the first {} records have no features", file.at(0), looked_at);
  return fields;
}

Schema schema_for(const TfRecordFile& first, const TfRecordOptions& options) {
  std::vector<Field> fields = options.fields.empty() ? find_fields(first) : options.fields;
  if (options.classes > 0) {
    const auto label = std::ranges::find(fields, "label", &Field::name);
    if (label == fields.end())
      fail<InvalidArgument>("{}: classes are given, but there is no field 'label'", first.path().string());
    label->classes = {options.classes};
  }
  return fields;
}

class TfRecords final : public Dataset {
 public:
  TfRecords(std::vector<TfRecordFile> files, Schema schema) : Dataset(std::move(schema)), files_(std::move(files)) {
    for (const TfRecordFile& file : files_) ends_.push_back(size() + file.size());
  }

  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string describe() const override {
    const std::string more = files_.size() > 1 ? fmt::format(" and {} more", files_.size() - 1) : "";
    return fmt::format("{}{}: {}", files_.front().path().string(), more, summary());
  }

 private:
  /// A record, and its features in the order of the schema.
  struct Row {
    const TfRecordFile* file = nullptr;
    std::uint64_t record = 0;
  };

  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    std::vector<Row> rows;
    for (const std::uint64_t index : indices) {
      const auto end = std::ranges::upper_bound(ends_, index);
      const auto file = static_cast<std::size_t>(end - ends_.begin());
      rows.push_back({.file = &files_[file], .record = index - (file == 0 ? 0 : ends_[file - 1])});
    }
    if (std::ranges::none_of(schema().fields(), &Field::varies)) return fill_at_once(rows, out);
    std::size_t bytes = 0;
    for (const Row& row : rows) bytes += row.file->span_of(row.record, 1);
    const std::vector<Bytes> records = read_records(rows, workspace(out, bytes));
    std::vector<Feature> features(rows.size() * schema().size());
    std::vector<std::int64_t> longest(schema().size(), 0);
    std::vector<std::int64_t> lengths(features.size(), 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      at_fault(rows[i], [&] { parse(records[i], &features[i * schema().size()], &lengths[i * schema().size()]); });
      for (std::size_t field = 0; field < schema().size(); ++field) {
        longest[field] = std::max(longest[field], lengths[i * schema().size() + field]);
      }
    }
    out.make_room(schema(), rows.size(), longest);
    for (std::size_t field = 0; field < schema().size(); ++field) copy(rows, features, lengths, field, out);
  }

  /// Where every sample is of the same size: each record's values are copied while it is in the cache.
  void fill_at_once(const std::vector<Row>& rows, Batch& out) const {
    out.make_room(schema(), rows.size());
    std::vector<Bytes> records;
    std::vector<Feature> features(schema().size());
    std::vector<std::int64_t> lengths(schema().size());
    for (std::size_t i = 0; i < rows.size();) {
      const std::size_t run = neighbours(rows, i);
      records.clear();
      rows[i].file->read(rows[i].record, run, workspace(out, rows[i].file->span_of(rows[i].record, run)), records);
      for (const Bytes record : records) {
        at_fault(rows[i], [&] {
          std::ranges::fill(features, Feature{});
          parse(record, features.data(), lengths.data());
          for (std::size_t field = 0; field < schema().size(); ++field) {
            const std::size_t each = out.bytes(field).size() / rows.size();
            std::byte* const to = out.bytes(field).data() + i * each;
            copy_values(features[field], to);
            if (!schema()[field].classes.empty()) check_classes(schema()[field], {to, each}, "it");
          }
        });
        ++i;
      }
    }
  }

  /// How many rows from the i-th on lie side by side and are read together.
  static std::size_t neighbours(const std::vector<Row>& rows, std::size_t i) {
    std::size_t run = 1;
    while (i + run < rows.size() && rows[i + run].file == rows[i].file &&
           rows[i + run].record == rows[i].record + run &&
           rows[i].file->span_of(rows[i].record, run + 1) <= kMostTogether) {
      ++run;
    }
    return run;
  }

  std::vector<Bytes> read_records(const std::vector<Row>& rows, MutableBytes buffer) const {
    std::vector<Bytes> records;
    records.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size();) {
      const std::size_t run = neighbours(rows, i);
      const std::size_t span = rows[i].file->span_of(rows[i].record, run);
      rows[i].file->read(rows[i].record, run, buffer.first(span), records);
      buffer = buffer.subspan(span);
      i += run;
    }
    return records;
  }

  /// Finds the features of the schema, and how long each is that varies.
  void parse(Bytes record, Feature* features, std::int64_t* lengths) const {
    std::size_t expected = 0;  // records tend to have the same order
    parse_example(record, [&](std::string_view name, const Feature& feature) {
      for (std::size_t tried = 0; tried < schema().size(); ++tried) {
        const std::size_t field = (expected + tried) % schema().size();
        if (schema()[field].name != name) continue;
        features[field] = feature;
        expected = field + 1;
        return;
      }
    });
    for (std::size_t i = 0; i < schema().size(); ++i) lengths[i] = length_of(schema()[i], features[i]);
  }

  static std::int64_t length_of(const Field& field, const Feature& feature) {
    if (feature.kind != kind_for(field.dtype, feature.kind)) {
      fail<Corrupt>("feature '{}' is {}, expected {}", field.name, name_of(feature.kind), field.describe());
    }
    const std::size_t count = count_values(feature);
    const std::size_t width = feature.kind == Feature::Kind::kBytes ? size_of(field.dtype) : 1;
    const std::size_t elements = field.elements();
    if (field.varies() ? count % (elements * width) != 0 : count != elements * width) {
      fail<Corrupt>("feature '{}' has {} {}, expected {}", field.name, count,
                    feature.kind == Feature::Kind::kBytes || field.dtype == DType::kU8 ? "bytes" : "values",
                    field.describe());
    }
    return field.varies() ? static_cast<std::int64_t>(count / (elements * width)) : 0;
  }

  void copy(const std::vector<Row>& rows, const std::vector<Feature>& features,
            const std::vector<std::int64_t>& lengths, std::size_t field, Batch& out) const {
    if (rows.empty()) return;
    const std::size_t each = out.bytes(field).size() / rows.size();
    const std::size_t unit = schema()[field].elements() * size_of(schema()[field].dtype);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::byte* to = out.bytes(field).data() + i * each;
      copy_values(features[i * schema().size() + field], to);
      std::size_t held = each;
      if (schema()[field].varies()) {
        const std::int64_t length = lengths[i * schema().size() + field];
        out.lengths(field)[i] = length;
        held = static_cast<std::size_t>(length) * unit;
      }
      if (schema()[field].classes.empty()) continue;
      at_fault(rows[i], [&] { check_classes(schema()[field], {to, held}, "it"); });
    }
    if (schema()[field].varies()) out.pad(field);
  }

  /// Says which record it was.
  template <typename Body>
  static void at_fault(const Row& row, const Body& body) {
    try {
      body();
    } catch (const Error& problem) {
      fail<Corrupt>("{}: record {}: {}", row.file->at(row.record), row.record, problem.what());
    }
  }

  std::vector<TfRecordFile> files_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace

DatasetPtr load_tfrecord(const std::vector<std::string>& files, const TfRecordOptions& options) {
  std::vector<TfRecordFile> opened;
  for (const std::filesystem::path& path : expand(files)) opened.emplace_back(path);
  Schema schema = schema_for(opened.front(), options);
  return std::make_shared<TfRecords>(std::move(opened), std::move(schema));
}

}  // namespace trireme::data
