#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/files/byte_source.h"
#include "data/files/mirrors.h"
#include "data/shape.h"

namespace trireme::data {
namespace {

/// One IDX file: bytes in `sizes.size()` dimensions; the first dimension is the samples.
struct IdxArray {
  std::filesystem::path path;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint8_t> values;
};

/// What a file must contain; also used in error messages.
struct Expected {
  const char* content;     ///< "images" or "labels"
  std::size_t dimensions;  ///< 3 or 1
  std::uint64_t max_bytes;
};

constexpr std::byte kUnsignedBytes{0x08};

const char* type_name(std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0B:
      return "16-bit integers";
    case 0x0C:
      return "32-bit integers";
    case 0x0D:
      return "floats";
    case 0x0E:
      return "doubles";
    default:
      return "unknown";
  }
}

void read_header_part(ByteSource& source, MutableBytes out, const char* what) {
  const std::uint64_t from = source.offset();
  if (const std::size_t got = source.read(out); got < out.size()) {
    fail<Corrupt>("{}: the file is truncated: expected {} ({} bytes), found {} bytes", source.at(from), what,
                  out.size(), got);
  }
}

void read_magic(ByteSource& source, const Expected& expected) {
  std::array<std::byte, 4> magic;
  if (source.most() == 0) {
    fail<Corrupt>("{}: the file is empty, expected an IDX file of {}", source.at(0), expected.content);
  }
  read_header_part(source, magic, "the IDX magic number");
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    fail<Corrupt>("{}: not an IDX file: expected magic 00 00 08 {:02x}, found {:02x}", source.at(0),
                  expected.dimensions, fmt::join(magic, " "));
  }
  if (magic[2] != kUnsignedBytes) {
    fail<Corrupt>("{}: wrong type of values: expected 0x08 (unsigned bytes), found 0x{:02x} ({})", source.at(2),
                  magic[2], type_name(magic[2]));
  }
  if (const auto found = std::to_integer<std::size_t>(magic[3]); found != expected.dimensions) {
    fail<Corrupt>("{}: wrong number of dimensions: expected {} for {}, found {}; are images and labels swapped?",
                  source.at(3), expected.dimensions, expected.content, found);
  }
}

/// Reads the extents and returns how many values must follow; checks that the file can hold them.
std::uint64_t read_sizes(ByteSource& source, const Expected& expected, std::vector<std::uint64_t>& sizes) {
  std::uint64_t total = 1;
  for (std::size_t dimension = 0; dimension < expected.dimensions; ++dimension) {
    const std::uint64_t at = source.offset();
    std::array<std::byte, 4> raw;
    read_header_part(source, raw, "the size of a dimension");
    std::uint64_t size = 0;
    for (const std::byte byte : raw) size = size << 8 | std::to_integer<std::uint64_t>(byte);  // big-endian
    if (size == 0) fail<Corrupt>("{}: dimension {} has size 0, expected at least 1", source.at(at), dimension);
    if (size > expected.max_bytes / total) {
      fail<Corrupt>("{}: dimension {} has size {}, which makes more than the {} bytes allowed for {}", source.at(at),
                    dimension, size, expected.max_bytes, expected.content);
    }
    total *= size;
    sizes.push_back(size);
  }
  if (source.offset() + total > source.most()) {
    fail<Corrupt>("{}: the file is truncated: expected {} bytes of {} ({}), but at most {} can follow",
                  source.at(source.offset()), total, expected.content, fmt::join(sizes, "x"),
                  source.most() - std::min(source.most(), source.offset()));
  }
  return total;
}

/// Reads `total` bytes; grows only as data arrives: a small gzip file can claim a thousand times its size.
std::vector<std::uint8_t> read_values(ByteSource& source, const Expected& expected, std::uint64_t total) {
  constexpr std::size_t kFirstPart = 1 << 20;
  std::vector<std::uint8_t> values;
  while (values.size() < total) {
    const std::size_t filled = values.size();
    values.resize(std::min<std::uint64_t>(total, std::max(kFirstPart, 2 * filled)));
    const MutableBytes part = std::as_writable_bytes(std::span(values).subspan(filled));
    if (const std::size_t got = source.read(part); got < part.size()) {
      fail<Corrupt>("{}: the file is truncated: expected {} bytes of {}, found {}", source.at(source.offset()), total,
                    expected.content, filled + got);
    }
  }
  std::array<std::byte, 1> extra;
  const std::uint64_t end = source.offset();
  if (source.read(extra) != 0) {
    fail<Corrupt>("{}: trailing bytes: expected the file to end after {} bytes of {}", source.at(end), total,
                  expected.content);
  }
  return values;
}

IdxArray read_array(const std::filesystem::path& path, const Expected& expected) {
  ByteSource source(path);
  IdxArray array{.path = source.path(), .sizes = {}, .values = {}};
  read_magic(source, expected);
  const std::uint64_t total = read_sizes(source, expected, array.sizes);
  array.values = read_values(source, expected, total);
  return array;
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(IdxArray images, IdxArray labels, const IdxOptions& options)
      : Dataset(Schema{
            {.name = "image",
             .shape = {1, static_cast<std::int64_t>(images.sizes[1]), static_cast<std::int64_t>(images.sizes[2])}},
            {.name = "label", .dtype = DType::kI64, .role = Role::kTarget, .classes = {options.classes}}}),
        name_(images.path.string()),
        images_(std::move(images.values)),
        labels_(std::move(labels.values)) {
    for (std::size_t pixel = 0; pixel < pixel_values_.size(); ++pixel) {
      const double scaled = static_cast<double>(pixel) / 255.0;
      pixel_values_[pixel] = static_cast<float>((scaled - options.normalization.mean) / options.normalization.std);
    }
  }

  std::uint64_t size() const override { return labels_.size(); }
  std::string describe() const override { return name_ + ": " + summary(); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    const std::size_t elements = schema()[0].elements();
    float* to = out.values<float>(0).data();
    std::int64_t* labels = out.values<std::int64_t>(1).data();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::uint8_t* from = images_.data() + indices[i] * elements;
      for (std::size_t j = 0; j < elements; ++j) *to++ = pixel_values_[from[j]];
      labels[i] = labels_[indices[i]];
    }
  }

  std::string name_;
  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
  std::array<float, 256> pixel_values_;  ///< each byte value, scaled and normalised
};

void check_options(const IdxOptions& options) {
  check_normalization(options.normalization);
  if (options.classes < 1 || options.classes > 256) {
    fail<InvalidArgument>("IDX labels are bytes: expected 1 to 256 classes, not {}", options.classes);
  }
}

void check_shape(const IdxArray& images, const IdxOptions& options) {
  const std::array found{std::int64_t{1}, static_cast<std::int64_t>(images.sizes[1]),
                         static_cast<std::int64_t>(images.sizes[2])};
  if (!options.shape.empty() && !std::ranges::equal(options.shape, found)) {
    fail<Corrupt>("{}, byte 8: wrong dimensions: expected images of {}, found {}", images.path.string(),
                  shape_text(options.shape), shape_text(found));
  }
}

void check_labels(const IdxArray& labels, const IdxOptions& options) {
  constexpr std::size_t kHeaderBytes = 8;
  const auto bad = std::ranges::find_if(labels.values, [&](std::uint8_t label) { return label >= options.classes; });
  if (bad != labels.values.end()) {
    fail<Corrupt>("{}, byte {}: label {}, expected 0 to {}", labels.path.string(),
                  kHeaderBytes + static_cast<std::size_t>(bad - labels.values.begin()), *bad, options.classes - 1);
  }
}

void check_counts(const IdxArray& images, const IdxArray& labels) {
  if (images.sizes[0] == labels.sizes[0]) return;
  fail<Corrupt>("{}, byte 4: {} labels, but {} has {} images: the two files do not belong together",
                labels.path.string(), labels.sizes[0], images.path.string(), images.sizes[0]);
}

}  // namespace

DatasetPtr load_idx(const Mirrors& images_files, const Mirrors& labels_files, const IdxOptions& options) {
  check_options(options);
  IdxArray labels = read_any(labels_files, [&](const std::filesystem::path& path) {
    IdxArray array = read_array(path, {"labels", 1, options.max_bytes});
    check_labels(array, options);
    return array;
  });
  IdxArray images = read_any(images_files, [&](const std::filesystem::path& path) {
    IdxArray array = read_array(path, {"images", 3, options.max_bytes});
    check_shape(array, options);
    check_counts(array, labels);
    return array;
  });
  return std::make_shared<IdxDataset>(std::move(images), std::move(labels), options);
}

}  // namespace trireme::data
