#include "data/open/source.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include "trireme/transforms.h"

#include "base/error.h"
#include "base/suggest.h"
#include "data/files/mirrors.h"
#include "data/open/fields.h"

namespace trireme::data {
namespace {

using std::filesystem::path;

const Field* find_known(const Encoding* known, std::string_view name) {
  if (known == nullptr) return nullptr;
  const auto found = std::ranges::find(known->fields, name, &Field::name);
  return found == known->fields.end() ? nullptr : &*found;
}

ImageSize size_of_images(const OpenOptions& options, const Encoding* known) {
  const Field* const image = find_known(known, "image");
  if (image == nullptr || image->shape.size() != 3) return options.image_size;
  return {.height = image->shape[1], .width = image->shape[2]};
}

TokenOptions token_options(const OpenOptions& options, const Encoding* known) {
  TokenOptions tokens{.length = options.length};
  if (const Field* const field = find_known(known, "tokens"); field != nullptr && field->classes.size() == 1) {
    tokens.vocabulary = field->classes.front();
  }
  return tokens;
}

/// `corpus.bin` has its test part in `corpus.test.bin`, as `trireme data tokenize` writes it.
DatasetPtr find_token_test(const std::vector<std::string>& files, const DatasetPtr& train, const OpenOptions& options) {
  if (files.size() != 1 || files.front().find_first_of("*?[") != std::string::npos) return nullptr;
  path beside = files.front();
  beside.replace_extension(".test.bin");
  if (beside == path(files.front()) || files.front().ends_with(".test.bin") || !std::filesystem::exists(beside))
    return nullptr;
  return load_tokens({beside.string()}, {.length = options.length, .vocabulary = train->schema()[0].limit(0)});
}

Source open_table(const std::vector<std::string>& files, const OpenOptions& options, const Encoding* known) {
  if (files.size() > 1) {
    fail<InvalidArgument>("several tables ({}): give one file, or a glob pattern such as 'part-*.csv'",
                          fmt::join(files, ", "));
  }
  Source source;
  if (known != nullptr && known->table) {
    source.samples = load_table(files.front(), *known->table);
    return source;
  }
  Table table = load_table(
      files.front(),
      {.targets = options.targets, .ignore = options.ignore, .types = options.types, .classes = options.classes});
  source.samples = std::move(table.samples);
  source.table = std::move(table.encoding);
  source.notes = std::move(table.notes);
  return source;
}

Source open_libsvm(const std::vector<std::string>& files, const Encoding* known) {
  LibsvmOptions options;
  if (const Field* const features = find_known(known, "features")) options.features = features->shape.front();
  if (const Field* const label = find_known(known, "label")) {
    options.class_names = label->class_names;
    options.regression = label->classes.empty();
  }
  return {.samples = load_libsvm(files, options)};
}

/// Class folders, or `train` and `test` (or `val`) with class folders in them.
Source open_image_folder(const path& folder, const OpenOptions& options, const Encoding* known) {
  const ImageSize size = size_of_images(options, known);
  Source source;
  const bool split = std::filesystem::is_directory(folder / "train");
  source.samples = load_image_folder(split ? folder / "train" : folder, size);
  const Field& image = source.samples->schema()[0];
  for (const char* const name : {"test", "val"}) {
    if (!split || source.test || !std::filesystem::is_directory(folder / name)) continue;
    source.test = load_image_folder(folder / name, size.height > 0 ? size : ImageSize{image.shape[1], image.shape[2]});
  }
  return source;
}

Source open_idx(const path& folder) {
  const auto part = [&](const std::string& name) {
    return load_idx(folder / (name + "-images-idx3-ubyte"), folder / (name + "-labels-idx1-ubyte"), {.classes = 256});
  };
  Source source{.samples = part("train")};
  const std::array names{"t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"};
  if (std::ranges::any_of(names, [&](const char* name) { return std::filesystem::exists(folder / name); })) {
    source.test = part("t10k");
  }
  return source;
}

Source open_kind(const Located& located, const OpenOptions& options, const Encoding* known) {
  const std::vector<std::string>& files = located.files;
  switch (located.kind) {
    case SourceKind::kFashionMnist: {
      const Split split = options.folders ? load_fashion_mnist(*options.folders) : load_fashion_mnist();
      return {.samples = split.train, .test = split.test};
    }
    case SourceKind::kSynthetic: {
      const Split split = make_synthetic();
      return {.samples = split.train, .test = split.test};
    }
    case SourceKind::kCifarFolder: {
      const Split split = load_cifar_binary(files.front());
      return {.samples = split.train, .test = split.test};
    }
    case SourceKind::kIdxFolder:
      return open_idx(files.front());
    case SourceKind::kImageFolder:
      return open_image_folder(files.front(), options, known);
    case SourceKind::kTable:
      return open_table(files, options, known);
    case SourceKind::kLibsvm:
      return open_libsvm(files, known);
    case SourceKind::kNpy:
      return {.samples = load_npy(files)};
    case SourceKind::kNpz:
      if (files.size() > 1) fail<InvalidArgument>("{} files of the kind .npz: give one", files.size());
      return {.samples = load_npz(files.front())};
    case SourceKind::kTokens: {
      const DatasetPtr train = load_tokens(files, token_options(options, known));
      return {.samples = train, .test = known != nullptr ? nullptr : find_token_test(files, train, options)};
    }
    case SourceKind::kText:
      return {.samples = load_text(files, token_options(options, known))};
    case SourceKind::kTfRecord:
      return {.samples = load_tfrecord(files)};
    case SourceKind::kWebDataset:
      return {.samples = load_webdataset(files, {.size = size_of_images(options, known)})};
  }
  fail<InvalidArgument>("unknown kind of data");
}

/// Options that mean nothing to this kind of data are refused: a user who gives one expects it to do something.
void check_options(const Located& located, const OpenOptions& options) {
  if (located.kind == SourceKind::kTable) return;
  if (!options.types.empty()) {
    fail<InvalidArgument>("kinds of columns are given, and {} is no table", name_of(located.kind));
  }
}

Source open_place(const std::string& spec, const OpenOptions& options, const Encoding* known) {
  const Located located = locate(spec);
  check_options(located, options);
  if (known != nullptr && known->kind != name_of(located.kind) && located.kind != SourceKind::kSynthetic &&
      known->table.has_value() != (located.kind == SourceKind::kTable)) {
    fail<InvalidArgument>("{} is of kind '{}', and the model was trained on '{}'", spec, name_of(located.kind),
                          known->kind);
  }
  Source source = open_kind(located, options, known);
  source.kind = located.kind;
  settle_fields(source, options, known);
  return source;
}

}  // namespace

bool is_stream(SourceKind kind) { return kind == SourceKind::kTokens || kind == SourceKind::kText; }

bool is_decoded(SourceKind kind) {
  return kind == SourceKind::kImageFolder || kind == SourceKind::kWebDataset || kind == SourceKind::kTfRecord;
}

Source open_source(const std::string& spec, const OpenOptions& options, const Encoding* known) {
  if (!options.folders || std::ranges::count(named_data(), spec) > 0) return open_place(spec, options, known);
  const Mirrors places = *options.folders / spec;
  if (std::ranges::none_of(places.places(), [](const path& place) { return data_exists(place.string()); }) &&
      !did_you_mean(spec, named_data()).empty()) {
    return open_place(spec, options, known);  // a name that is misspelled, which it says
  }
  return read_any(places, [&](const path& place) {
    if (!data_exists(place.string())) fail<IoError>("cannot open {}: there is no such file", place.string());
    return open_place(place.string(), options, known);
  });
}

}  // namespace trireme::data
