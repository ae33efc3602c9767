#include "checkpoint/safetensors/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/document.h"

namespace trireme::checkpoint {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::uint64_t> offsets;  ///< two: the first byte, and the one after the last
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

/// Accepts exactly the header's grammar while the JSON is being read, so that a document of any other form (deep
/// nesting, a duplicate key, a huge array) is rejected at its first wrong token, before it takes memory.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& origin) : origin_(origin) {}

  std::vector<Entry> entries;
  Metadata metadata;

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail<Corrupt>("{} is not a sound safetensors file: {}; copy or write it again", origin_,
                  fmt::format(format, std::forward<Args>(args)...));
  }

  bool start_object(std::size_t) override {
    if (where_ == Where::kStart) {
      where_ = Where::kRoot;
    } else if (where_ == Where::kRoot && name_ == kMetadataName) {
      if (std::exchange(has_metadata_, true)) refuse("{} appears twice", kMetadataName);
      where_ = Where::kMetadata;
    } else if (where_ == Where::kRoot) {
      entries.emplace_back().name = name_;
      where_ = Where::kTensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (where_ == Where::kTensor) {
      const Entry& entry = entries.back();
      if (!entry.has_dtype || !entry.has_shape || !entry.has_offsets) {
        refuse("tensor {} needs dtype, shape and data_offsets", shown(entry.name));
      }
      if (entry.offsets.size() != 2) refuse("tensor {}: data_offsets must be two numbers", shown(entry.name));
    }
    where_ = where_ == Where::kRoot ? Where::kEnd : Where::kRoot;
    return true;
  }

  bool key(std::string& text) override {
    (where_ == Where::kRoot ? name_ : field_) = std::move(text);
    return true;
  }

  bool string(std::string& text) override {
    if (where_ == Where::kMetadata) {
      if (!metadata.emplace(field_, std::move(text)).second) refuse("metadata key {} twice", shown(field_));
    } else if (where_ == Where::kTensor && field_ == "dtype" && !entries.back().has_dtype) {
      const std::optional<DType> dtype = dtype_from_name(text);
      if (!dtype) refuse("tensor {} has unknown dtype {}", shown(name_), shown(text));
      entries.back().dtype = *dtype;
      entries.back().has_dtype = true;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ == Where::kTensor && field_ == "shape" && !entries.back().has_shape) {
      entries.back().has_shape = true;
      where_ = Where::kShape;
    } else if (where_ == Where::kTensor && field_ == "data_offsets" && !entries.back().has_offsets) {
      entries.back().has_offsets = true;
      where_ = Where::kOffsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    where_ = Where::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ == Where::kShape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        refuse("tensor {}: dimension {} is too large", shown(name_), value);
      }
      std::vector<std::int64_t>& shape = entries.back().shape;
      if (shape.size() == kMaxDimensions) refuse("tensor {} has over {} dimensions", shown(name_), kMaxDimensions);
      shape.push_back(static_cast<std::int64_t>(value));
    } else if (where_ == Where::kOffsets) {
      std::vector<std::uint64_t>& offsets = entries.back().offsets;
      if (offsets.size() == 2) refuse("tensor {}: data_offsets must be two numbers", shown(name_));
      offsets.push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a number with a fraction"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    refuse("its header is not JSON at byte {}", 8 + position);
  }

 private:
  enum class Where { kStart, kRoot, kTensor, kShape, kOffsets, kMetadata, kEnd };

  [[noreturn]] void unexpected(std::string_view what) const {
    if (where_ == Where::kStart) refuse("its header must be one object, not {}", what);
    if (where_ == Where::kRoot) refuse("{} must be an object, not {}", shown(name_), what);
    if (where_ == Where::kMetadata) refuse("metadata {} must be a string, not {}", shown(field_), what);
    refuse("tensor {}: {} is unexpected in {} (known: dtype, shape, data_offsets, each once)", shown(name_), what,
           shown(field_));
  }

  const std::string& origin_;
  Where where_ = Where::kStart;
  std::string name_;   // last key of the outermost object
  std::string field_;  // last key inside a tensor or the metadata
  bool has_metadata_ = false;
};

/// Returns the first name that occurs in `tensors` twice, or null.
const std::string* duplicate_name(std::span<const TensorView* const> tensors) {
  std::vector<const TensorView*> sorted(tensors.begin(), tensors.end());
  std::ranges::sort(sorted, {}, &TensorView::name);
  const auto twice = std::ranges::adjacent_find(sorted, {}, &TensorView::name);
  return twice == sorted.end() ? nullptr : &(*twice)->name;
}

/// Turns entries into views of `data`; checks that they cover every byte exactly once.
std::vector<TensorView> place(HeaderReader& reader, Bytes data) {
  std::ranges::sort(reader.entries, {}, [](const Entry& entry) {
    return std::tuple(entry.offsets[0], entry.offsets[1], std::string_view(entry.name));
  });
  std::vector<TensorView> tensors;
  tensors.reserve(reader.entries.size());
  std::uint64_t covered = 0;
  for (Entry& entry : reader.entries) {
    const std::uint64_t begin = entry.offsets[0];
    const std::uint64_t end = entry.offsets[1];
    if (begin > end || end > data.size()) {
      reader.refuse("tensor {}: data_offsets [{}, {}] do not lie within the {} bytes of data", shown(entry.name), begin,
                    end, data.size());
    }
    if (begin != covered) {
      reader.refuse("tensor {} begins at byte {} of the data, expected {}: tensors must neither overlap nor leave gaps",
                    shown(entry.name), begin, covered);
    }
    const std::optional<std::uint64_t> size = byte_size(entry.shape, entry.dtype);
    if (!size || *size != end - begin) {
      reader.refuse("tensor {}: shape [{}] of {} takes {} bytes, its data_offsets give {}", shown(entry.name),
                    fmt::join(entry.shape, ", "), name_of(entry.dtype), size ? fmt::to_string(*size) : "more than 2^64",
                    end - begin);
    }
    tensors.push_back({.name = std::move(entry.name),
                       .dtype = entry.dtype,
                       .shape = std::move(entry.shape),
                       .data = data.subspan(begin, end - begin)});
    covered = end;
  }
  if (covered != data.size()) {
    reader.refuse("its tensors take {} bytes, but {} bytes of data follow the header", covered, data.size());
  }
  return tensors;
}

std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail<InvalidArgument>("cannot write safetensors: a name or metadata text is not UTF-8; rename it");
  }
}

void check_writable(const TensorView& tensor) {
  if (tensor.name == kMetadataName) fail<InvalidArgument>("no tensor can be called {}; rename it", kMetadataName);
  if (tensor.shape.size() > kMaxDimensions) {
    fail<InvalidArgument>("tensor '{}' has {} dimensions, at most {} can be written", tensor.name, tensor.shape.size(),
                          kMaxDimensions);
  }
  const std::optional<std::uint64_t> size = byte_size(tensor.shape, tensor.dtype);
  if (!size || *size != tensor.data.size()) {
    fail<InvalidArgument>("tensor '{}': {} bytes were given, but shape [{}] of {} takes {}", tensor.name,
                          tensor.data.size(), fmt::join(tensor.shape, ", "), name_of(tensor.dtype),
                          size ? fmt::to_string(*size) : "an impossible number");
  }
}

}  // namespace

std::optional<std::uint64_t> byte_size(std::span<const std::int64_t> shape, DType dtype) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes)) return std::nullopt;
  }
  return bytes;
}

SafetensorsContent parse_safetensors(Bytes file, const std::string& origin) {
  HeaderReader reader(origin);
  if (file.size() < 8) reader.refuse("it has {} bytes, the length of the header alone takes 8", file.size());
  const auto length = load_le<std::uint64_t>(file);
  if (length > kMaxHeaderBytes) {
    reader.refuse("its header claims {} bytes, at most {} are allowed", length, kMaxHeaderBytes);
  }
  if (length > file.size() - 8) {
    reader.refuse("its header claims {} bytes, only {} follow: was it cut short?", length, file.size() - 8);
  }
  const std::string_view header = as_text(file.subspan(8, length));
  if (!header.starts_with('{')) reader.refuse("its header must begin with '{{' at byte 8");
  // The JSON reader takes a zero byte for the end of its input and would ignore what follows.
  if (header.find('\0') != header.npos) reader.refuse("its header holds a zero byte at {}", 8 + header.find('\0'));
  nlohmann::json::sax_parse(header.begin(), header.end(), &reader);

  SafetensorsContent content{.tensors = place(reader, file.subspan(8 + length)),
                             .metadata = std::move(reader.metadata)};
  std::vector<const TensorView*> views;
  views.reserve(content.tensors.size());
  for (const TensorView& tensor : content.tensors) views.push_back(&tensor);
  if (const std::string* name = duplicate_name(views)) reader.refuse("tensor {} appears twice", shown(*name));
  return content;
}

std::string encode_header(std::span<const TensorView* const> tensors, const Metadata& metadata) {
  if (const std::string* name = duplicate_name(tensors)) {
    fail<InvalidArgument>("tensor '{}' was given twice; every tensor in a file needs its own name", *name);
  }
  std::string header(8, '\0');
  const auto separator = [&] { return header.size() == 8 ? '{' : ','; };
  if (!metadata.empty()) {
    header += fmt::format("{{\"{}\":", kMetadataName);
    char before = '{';
    for (const auto& [key, text] : metadata) {
      header += fmt::format("{}{}:{}", std::exchange(before, ','), quoted(key), quoted(text));
    }
    header += '}';
  }
  std::uint64_t offset = 0;
  for (const TensorView* tensor : tensors) {
    check_writable(*tensor);
    header +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", separator(), quoted(tensor->name),
                    name_of(tensor->dtype), fmt::join(tensor->shape, ","), offset, offset + tensor->data.size());
    offset += tensor->data.size();
  }
  if (header.size() == 8) header += '{';
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size() - 8;
  if (length > kMaxHeaderBytes) {
    fail<InvalidArgument>("the header would take {} bytes, at most {} are allowed; split the file", length,
                          kMaxHeaderBytes);
  }
  store_le(std::as_writable_bytes(std::span(header)), length);
  return header;
}

}  // namespace trireme::checkpoint
