#include "data/open/fields.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "trireme/transforms.h"

#include "base/error.h"
#include "base/suggest.h"
#include "data/images/image.h"

namespace trireme::data {
namespace {

/// As many samples are read to find how many classes there are; with more, the number has to be given.
constexpr std::uint64_t kMostLookedAt = std::uint64_t{1} << 17;
constexpr std::uint64_t kMostDecoded = std::uint64_t{1} << 13;
constexpr std::int64_t kMostClassesCounted = 65536;

bool holds_whole_numbers(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64 || dtype == DType::kBool;
}

std::vector<std::string> names_of(const Schema& schema) {
  std::vector<std::string> names;
  for (const Field& field : schema.fields()) names.push_back(field.name);
  return names;
}

void check_exist(const std::vector<std::string>& wanted, const Dataset& samples) {
  for (const std::string& name : wanted) {
    if (samples.schema().find(name)) continue;
    const std::vector<std::string> names = names_of(samples.schema());
    fail<InvalidArgument>("{} has no field '{}'{}; it has: {}", samples.describe(), name, did_you_mean(name, names),
                          fmt::join(names, ", "));
  }
}

/// The largest number of a target plus one.
std::int64_t count_classes(const Source& source, const Field& target) {
  const Dataset& samples = *source.samples;
  const std::uint64_t most = is_decoded(source.kind) ? kMostDecoded : kMostLookedAt;
  if (samples.size() > most) {
    fail<InvalidArgument>(
        "how many classes '{}' has is not written in {}, and {} samples are too many to look: give it", target.name,
        samples.describe(), samples.size());
  }
  const DatasetPtr labels = select(source.samples, {target});
  std::int64_t largest = 0;
  Batch batch;
  std::vector<std::uint64_t> rows;
  for (std::uint64_t first = 0; first < labels->size(); first += rows.size()) {
    rows.resize(static_cast<std::size_t>(std::min<std::uint64_t>(1024, labels->size() - first)));
    std::iota(rows.begin(), rows.end(), first);
    labels->read(rows, batch);
    for (const std::int64_t label : std::as_const(batch).values<std::int64_t>(std::size_t{0})) {
      if (label < 0 || label >= kMostClassesCounted) {
        fail<InvalidArgument>("{}: '{}' is {} somewhere, which is no class from 0 to {}", samples.describe(),
                              target.name, label, kMostClassesCounted - 1);
      }
      largest = std::max(largest, label);
    }
  }
  return largest + 1;
}

/// Whether the number of classes of a target has to be found: IDX files do not tell, and load_idx wants a limit.
bool lacks_classes(SourceKind kind, const Field& field) {
  return field.role == Role::kTarget && holds_whole_numbers(field.dtype) && field.shape.empty() &&
         (field.classes.empty() || kind == SourceKind::kIdxFolder);
}

/// Sets role and classes of a field of a source that is no table.
void settle_target(const Source& source, const OpenOptions& options, Field& field) {
  if (!options.targets.empty()) {
    field.role = std::ranges::count(options.targets, field.name) > 0 ? Role::kTarget : Role::kInput;
  }
  if (lacks_classes(source.kind, field)) {
    field.dtype = DType::kI64;
    field.classes = {options.classes > 0 ? options.classes : count_classes(source, field)};
  } else if (field.role == Role::kTarget && options.classes > 0 && field.classes.size() == 1 &&
             field.class_names.empty()) {
    field.classes = {options.classes};
  }
}

std::vector<Field> wanted_fields(const Source& source, const OpenOptions& options) {
  const Dataset& samples = *source.samples;
  const bool table = source.kind == SourceKind::kTable;
  if (!table) {
    check_exist(options.targets, samples);
    check_exist(options.ignore, samples);
  }
  std::vector<std::string> shaped;
  for (const auto& [name, shape] : options.shapes) shaped.push_back(name);
  check_exist(shaped, samples);
  std::vector<Field> fields;
  for (Field field : samples.schema().fields()) {
    if (!table && std::ranges::count(options.ignore, field.name) > 0) continue;
    if (!table) settle_target(source, options, field);
    if (const auto shape = options.shapes.find(field.name); shape != options.shapes.end()) field.shape = shape->second;
    fields.push_back(std::move(field));
  }
  return fields;
}

/// The fields of the training set, of which a target may be missing here.
std::vector<Field> known_fields(const Dataset& samples, const Encoding& known) {
  std::vector<Field> fields;
  for (const Field& field : known.fields) {
    if (field.role == Role::kTarget && !samples.schema().find(field.name)) continue;
    fields.push_back(field);
    const Field& found = samples.schema()[samples.schema().index_of(field.name)];
    if (!found.class_names.empty() && found.class_names != field.class_names) {
      fail<InvalidArgument>("{}: the classes of '{}' are {}, and the model was trained on {}", samples.describe(),
                            field.name, fmt::join(found.class_names, ", "), fmt::join(field.class_names, ", "));
    }
  }
  return fields;
}

// ---- Images in records.

bool begins_as_image(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  return text.starts_with("\x89PNG") || text.starts_with("\xff\xd8\xff");
}

/// Reads the first sample that is sound, of the first few; false if there is none.
bool read_first_sound(const Dataset& samples, Batch& batch) {
  for (std::uint64_t row = 0; row < std::min<std::uint64_t>(16, samples.size()); ++row) {
    try {
      samples.read(std::span(&row, 1), batch);
      return true;
    } catch (const Corrupt&) {  // named when it is read for good
    }
  }
  return false;
}

/// The first input of bytes that holds an image in the first sample; nullopt if there is none.
std::optional<std::size_t> find_encoded_image(const Dataset& samples, Batch& batch) {
  if (!read_first_sound(samples, batch)) return std::nullopt;
  for (std::size_t i = 0; i < samples.schema().size(); ++i) {
    const Field& field = samples.schema()[i];
    if (field.dtype == DType::kU8 && field.shape.size() == 1 && begins_as_image(std::as_const(batch).bytes(i)))
      return i;
  }
  return std::nullopt;
}

/// The same samples with this field decoded, all of one size. What pads a shorter image is behind its end.
DatasetPtr decode_field(DatasetPtr samples, std::size_t index, const ImageSize& size) {
  const Schema had = samples->schema();
  Field image = had[index];
  image.shape = {3, size.height, size.width};
  const auto height = static_cast<std::uint32_t>(size.height);
  const auto width = static_cast<std::uint32_t>(size.width);
  return map(std::move(samples), had.replaced(index, std::move(image)),
             [=](Sample& from, Sample& to, RandomStream&) {
               for (std::size_t i = 0; i < had.size(); ++i) {
                 if (i != index) {
                   std::ranges::copy(from.bytes(i), to.bytes(i).begin());
                   continue;
                 }
                 const Image decoded = decode_image(from.bytes(i), "field '" + had[i].name + "'");
                 resize_to_planes(decoded, height, width, to.values<std::uint8_t>(i).data());
               }
             },
             {.what = "decoded"});
}

/// Of the images that the model was trained on.
ImageSize known_size(const Encoding& known) {
  const auto image = std::ranges::find_if(
      known.fields, [](const Field& field) { return field.dtype == DType::kU8 && field.shape.size() == 3; });
  return image == known.fields.end() ? ImageSize{} : ImageSize{.height = image->shape[1], .width = image->shape[2]};
}

/// Scaled to `size`, or to the size of the first.
void decode_images(Source& source, const ImageSize& size) {
  Batch batch;
  const auto index = find_encoded_image(*source.samples, batch);
  if (!index) return;
  const Schema& schema = source.samples->schema();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (i != *index && schema[i].varies()) return;  // stays as it is: a batch of both cannot be made
  }
  ImageSize wanted = size;
  if (wanted.height == 0) {
    const Image first = decode_image(std::as_const(batch).bytes(*index), "field '" + schema[*index].name + "'");
    wanted = {.height = first.height, .width = first.width};
  }
  source.samples = decode_field(source.samples, *index, wanted);
}

}  // namespace

void settle_fields(Source& source, const OpenOptions& options, const Encoding* known) {
  if (source.kind == SourceKind::kTfRecord)
    decode_images(source, known != nullptr ? known_size(*known) : options.image_size);
  const std::vector<Field> fields =
      known != nullptr ? known_fields(*source.samples, *known) : wanted_fields(source, options);
  const auto settle = [&](DatasetPtr& samples) {
    if (samples && !std::ranges::equal(samples->schema().fields(), fields)) samples = select(samples, fields);
  };
  settle(source.samples);
  settle(source.test);
}

}  // namespace trireme::data
