#include "trireme/open.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"
#include "base/suggest.h"
#include "data/open/source.h"

namespace trireme::data {
namespace {

constexpr std::uint64_t kMeasured = 10'000;  // samples, of those that have to be decoded
constexpr std::uint64_t kTestEvery = 10;

/// The tail of a stream is for testing: its neighbours would be in the training set otherwise.
Split split_stream(const DatasetPtr& whole) {
  const std::uint64_t test = std::max<std::uint64_t>(1, whole->size() / kTestEvery);
  if (whole->size() < 2) {
    fail<InvalidArgument>("{}: a single sample cannot be split into training and test: give the test set",
                          whole->describe());
  }
  std::vector<std::uint64_t> rows(whole->size() - test);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<std::uint64_t> tail(test);
  std::iota(tail.begin(), tail.end(), whole->size() - test);
  return {.train = subset(whole, std::move(rows)), .test = subset(whole, std::move(tail))};
}

Split split(const Source& source, const std::string& test, const OpenOptions& options, const Encoding& encoding) {
  if (!test.empty()) {
    OpenOptions of_test = options;
    of_test.types.clear();
    const Source other = open_source(test, of_test, &encoding);
    return {.train = source.samples, .test = other.test ? other.test : other.samples};
  }
  if (source.test) return {.train = source.samples, .test = source.test};
  return is_stream(source.kind) ? split_stream(source.samples) : split_off_test(source.samples, kTestEvery);
}

/// One mean and deviation for all numbers of a channel.
std::vector<Normalization> per_channel(const std::vector<Normalization>& each, std::size_t channels) {
  const std::size_t size = each.size() / channels;
  std::vector<Normalization> result;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    double mean = 0;
    for (std::size_t i = 0; i < size; ++i) mean += double{each[channel * size + i].mean} / static_cast<double>(size);
    double variance = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const auto [own, deviation] = each[channel * size + i];
      variance += (double{deviation} * deviation + (own - mean) * (own - mean)) / static_cast<double>(size);
    }
    result.push_back({.mean = static_cast<float>(mean), .std = static_cast<float>(std::sqrt(variance))});
  }
  return result;
}

bool is_image(const Field& field) {
  return field.role == Role::kInput && field.shape.size() == 3 && field.classes.empty() && !field.varies();
}

/// Bytes that are inputs: images, or numbers that were stored small.
bool is_bytes(const Field& field) {
  return field.role == Role::kInput && field.dtype == DType::kU8 && field.classes.empty() && !field.varies();
}

DatasetPtr some_of(const DatasetPtr& samples, std::uint64_t most) {
  if (samples->size() <= most) return samples;
  std::vector<std::uint64_t> rows(most);
  for (std::uint64_t i = 0; i < most; ++i) rows[i] = i * samples->size() / most;
  return subset(samples, std::move(rows));
}

/// Finds by what each field is normalised. A constant pixel counts with deviation 1 in measure(); among many that is
/// little, and an image that is all constant stays finite.
std::map<std::string, std::vector<Normalization>> measure_fields(const Source& source, const DatasetPtr& train) {
  std::map<std::string, std::vector<Normalization>> result;
  if (source.kind == SourceKind::kFashionMnist || source.kind == SourceKind::kSynthetic) return result;  // have it
  for (const Field& field : train->schema().fields()) {
    if (source.kind == SourceKind::kTable && field.name == "numbers") {
      result[field.name] = measure(*train, field.name);
    } else if (is_bytes(field) || (source.kind == SourceKind::kIdxFolder && is_image(field))) {
      const DatasetPtr looked_at = is_decoded(source.kind) ? some_of(train, kMeasured) : train;
      const auto channels = is_image(field) ? static_cast<std::size_t>(field.shape.front()) : std::size_t{1};
      result[field.name] = per_channel(measure(*looked_at, field.name), channels);
    }
  }
  return result;
}

DatasetPtr normalize_all(DatasetPtr samples, const Encoding& encoding) {
  for (const auto& [field, by] : encoding.normalization) {
    if (samples->schema().find(field)) samples = normalize(samples, field, by);
  }
  return samples;
}

struct Augmentation {
  std::int64_t shift = 0;
  bool mirror = false;
};

Augmentation parse_augmentation(const std::string& text) {
  Augmentation result;
  for (std::string_view left = text; !left.empty();) {
    const std::string_view word = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    const std::string_view name = word.substr(0, word.find(':'));
    if (name == "mirror" && name == word) {
      result.mirror = true;
      continue;
    }
    const std::string_view digits = name.size() < word.size() ? word.substr(name.size() + 1) : "";
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), result.shift);
    if (name != "shift" || problem != std::errc() || end != digits.data() + digits.size() || result.shift < 1) {
      fail<InvalidArgument>(
          "there is no augmentation '{}'{}: use shift:4 (pixels) and mirror, with a comma between them", word,
          did_you_mean(name, {"shift", "mirror"}));
    }
  }
  return result;
}

DatasetPtr augment(DatasetPtr samples, const OpenOptions& options) {
  const auto [shift, mirror] = parse_augmentation(options.augment);
  if (shift == 0 && !mirror) return samples;
  const auto fields = samples->schema().fields();
  const auto image = std::ranges::find_if(fields, is_image);
  if (image == fields.end()) {
    fail<InvalidArgument>("augmentation '{}' changes images, and these samples have none: {}", options.augment,
                          samples->schema().describe());
  }
  const std::string name = image->name;
  if (shift >= std::min(image->shape[1], image->shape[2])) {
    fail<InvalidArgument>("shift:{} moves images of {}x{} out of sight", shift, image->shape[1], image->shape[2]);
  }
  if (shift > 0) samples = random_shift(std::move(samples), name, shift, options.seed);
  if (mirror) samples = random_mirror(std::move(samples), name, options.seed + 1);
  return samples;
}

}  // namespace

Opened open(const std::string& spec, const OpenOptions& options) {
  parse_augmentation(options.augment);  // refuses it before much is read
  Source source = open_source(spec, options);
  Opened opened{.notes = std::move(source.notes)};
  opened.encoding.kind = name_of(source.kind);
  const auto fields = source.samples->schema().fields();
  opened.encoding.fields.assign(fields.begin(), fields.end());
  opened.encoding.table = source.table;
  const Split parts = split(source, options.test, options, opened.encoding);
  if (parts.test->schema() != parts.train->schema()) {
    fail<InvalidArgument>("the test set has {}, and the training set {}", parts.test->schema().describe(),
                          parts.train->schema().describe());
  }
  opened.encoding.normalization = measure_fields(source, parts.train);
  opened.split.train = augment(normalize_all(parts.train, opened.encoding), options);
  opened.split.test = normalize_all(parts.test, opened.encoding);
  return opened;
}

DatasetPtr open_like(const std::string& spec, const Encoding& encoding, const OpenOptions& options) {
  const Source source = open_source(spec, options, &encoding);
  return normalize_all(source.test ? source.test : source.samples, encoding);
}

}  // namespace trireme::data
