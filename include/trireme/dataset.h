#pragma once

// Samples: what they are, where they come from, and views of them. A sampler (sampler.h) decides which of them a worker
// reads in which step.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::data {

/// Samples as the model wants them. Reading into the same batch again reuses its buffers.
struct Batch {
  std::vector<float> features = {};       ///< row-major, sample after sample: size() x sample_shape
  std::vector<std::int64_t> labels = {};  ///< one class per sample

  std::size_t size() const { return labels.size(); }
};

/// A fixed, numbered set of labelled samples. Decorators (Normalized, Subset, Columns) wrap one and are one.
///
/// Immutable after construction, so every member may be called from any number of threads.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// How many samples there are; their indices are 0..size()-1.
  virtual std::uint64_t size() const = 0;

  /// Extents of one sample, e.g. {1, 28, 28} for channels, rows, columns.
  virtual const std::vector<std::int64_t>& sample_shape() const = 0;

  /// Labels are 0..classes()-1.
  virtual std::int64_t classes() const = 0;

  /// Replaces the content of `out` by the samples at `indices`, in that order; an index may occur more than once.
  /// The same index gives the same sample each time. Throws InvalidArgument if an index is not below size(), and
  /// then leaves `out` as it was.
  virtual void read(std::span<const std::uint64_t> indices, Batch& out) const = 0;

  /// One line for logs and messages: where the samples come from, how many, which shape.
  virtual std::string describe() const = 0;

  /// Numbers per sample: the product of sample_shape().
  std::size_t sample_elements() const;

 protected:
  /// Throws InvalidArgument unless every index is below size().
  void check_indices(std::span<const std::uint64_t> indices) const;

  /// `60000 samples of 1x28x28 in 10 classes`: the second half of most descriptions.
  std::string summary() const;
};

/// A training set and a test set.
struct Split {
  std::shared_ptr<const Dataset> train = {};
  std::shared_ptr<const Dataset> test = {};
};

// ---- Sources.

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

/// Samples that are already in memory as numbers.
class MemoryDataset : public Dataset {
 public:
  struct Content {
    std::string name;                  ///< where the samples come from: for describe()
    std::vector<std::int64_t> shape;   ///< of one sample
    std::int64_t classes = 0;          ///< labels are below this
    std::vector<float> features;       ///< row-major, sample after sample
    std::vector<std::int64_t> labels;  ///< one per sample
  };

  /// Throws InvalidArgument if features, labels, shape and classes do not fit together.
  explicit MemoryDataset(Content content);

  std::uint64_t size() const override { return content_.labels.size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return content_.shape; }
  std::int64_t classes() const override { return content_.classes; }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  Content content_;
};

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
/// is read from the first of its mirrors that is sound (see read_any); images are sound if there are as many of them as
/// labels.
///
/// Keeps one byte per pixel and converts on read. Sample shape {1, rows, columns}. Memory stays within what the files
/// really hold: a size in a header is trusted only as far as the file is long enough for it.
/// Throws IoError if a file cannot be read, Corrupt if one is malformed or they do not belong together (the message
/// names file, offset, and what was expected), InvalidArgument for bad options.
std::shared_ptr<const Dataset> load_idx(const Mirrors& images, const Mirrors& labels, const IdxOptions& options = {});

/// Zalando's Fashion-MNIST (Xiao et al. 2017): 60000 training and 10000 test images of 1x28x28 in 10 classes,
/// normalised by the training set's own mean and deviation.
///
/// Reads `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`
/// from the first of `folders` where it is sound, each with or without `.gz`; any set of 28x28 images in that layout
/// will do. Throws IoError that says how to get the data if a file cannot be read, else as load_idx.
Split load_fashion_mnist(const Mirrors& folders = "/usr/share/datasets/fashion-mnist");

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

/// A table of numbers, one sample per row, from a CSV file (plain or gzip), wholly in memory as floats.
///
/// Every column but the label's is a feature. Labels are whole numbers from 0. Read from the first of the file's
/// mirrors that is sound (see read_any); a plain file has no checksum, so one that lost whole rows counts as sound.
/// Throws IoError if the file cannot be read; Corrupt, naming file, line, column and what was expected, for ragged
/// rows and whatever is not a finite number; InvalidArgument for options that do not fit the file.
std::shared_ptr<const Dataset> load_csv(const Mirrors& files, const CsvOptions& options = {});

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

// ---- Views of another dataset.

/// Some samples of a dataset, renumbered 0, 1, 2 in the order given.
class Subset : public Dataset {
 public:
  /// Sample i is sample `rows[i]` of `source`. Throws InvalidArgument if a row does not exist there.
  Subset(std::shared_ptr<const Dataset> source, std::vector<std::uint64_t> rows);

  std::uint64_t size() const override { return rows_.size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return source_->sample_shape(); }
  std::int64_t classes() const override { return source_->classes(); }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  std::shared_ptr<const Dataset> source_;
  std::vector<std::uint64_t> rows_;
};

/// A dataset with its features normalised on the way out; labels stay.
class Normalized : public Dataset {
 public:
  /// Every feature alike: pixels.
  Normalized(std::shared_ptr<const Dataset> source, const Normalization& normalization);

  /// Each feature by its own, `per_feature.size() == source->sample_elements()`: columns of a table. Throws
  /// InvalidArgument if the count differs.
  Normalized(std::shared_ptr<const Dataset> source, std::vector<Normalization> per_feature);

  std::uint64_t size() const override { return source_->size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return source_->sample_shape(); }
  std::int64_t classes() const override { return source_->classes(); }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  std::shared_ptr<const Dataset> source_;
  std::vector<Normalization> normalization_;  ///< one for all features, or one for each
};

/// Mean and deviation of each feature over all samples, in two passes of small batches. A constant feature gets
/// deviation 1, so that it becomes 0. Measure the training set and apply the result to the test set too.
std::vector<Normalization> measure_features(const Dataset& dataset);

/// Some features of every sample: what one worker sees when features are spread over workers. Samples become flat:
/// shape {columns}, whatever the shape of the source.
class Columns : public Dataset {
 public:
  /// Feature j is feature `columns[j]` of the source, counted in row-major order. Throws InvalidArgument unless
  /// `columns` is non-empty, strictly increasing and within the source.
  Columns(std::shared_ptr<const Dataset> source, std::vector<std::uint64_t> columns);

  std::uint64_t size() const override { return source_->size(); }
  const std::vector<std::int64_t>& sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return source_->classes(); }
  void read(std::span<const std::uint64_t> indices, Batch& out) const override;
  std::string describe() const override;

 private:
  std::shared_ptr<const Dataset> source_;
  std::vector<std::uint64_t> columns_;
  std::vector<std::int64_t> shape_;
};

}  // namespace trireme::data
