#pragma once

// Data by name: what `trireme train --data` takes, for programs of one's own.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/dataset.h"
#include "trireme/sources.h"
#include "trireme/tables.h"

namespace trireme::data {

/// What was learned from a training set and holds for every other set that the same model sees: which fields there are,
/// what the words of a table are numbered, by what numbers are normalised. A run keeps it beside its checkpoints.
struct Encoding {
  std::string kind = {};           ///< of the data: `table`, `tokens`, `image folder`, ...
  std::vector<Field> fields = {};  ///< as the source has them, before they are normalised
  std::optional<TableEncoding> table = {};
  std::map<std::string, std::vector<Normalization>> normalization = {};  ///< by field; see normalize()

  /// Returns it as JSON text; `parse` is the inverse. Throws Corrupt if the text is none.
  std::string to_json() const;
  static Encoding parse(std::string_view json);
};

struct OpenOptions {
  std::string test = {};                  ///< what to test on, as `spec`; empty = see open()
  std::optional<Mirrors> folders = {};    ///< where the files are, tried in order; nullopt = as `spec` says
  std::vector<std::string> targets = {};  ///< fields or columns that a model should say; see TableOptions::targets
  std::vector<std::string> ignore = {};   ///< fields or columns to leave out
  std::map<std::string, ColumnKind> types = {};  ///< of columns of a table
  std::uint64_t length = 256;                    ///< tokens that a language model sees at a time
  std::int64_t classes = 0;                      ///< of the target; 0 = found
  std::map<std::string, std::vector<std::int64_t>> shapes =
      {};                     ///< of fields that are stored flat: {"image", {3, 8, 8}}
  ImageSize image_size = {};  ///< what images are scaled to
  std::string augment = {};   ///< of images, training only: `shift:4,mirror`
  std::uint64_t seed = 1;     ///< of augmentation
};

/// A training set and a test set, ready for a model.
struct Opened {
  Split split = {};
  Encoding encoding = {};
  std::vector<std::string> notes = {};  ///< one line each: what a user should know, such as a column that is left out
};

/// Opens what `spec` names:
///  - `fashion-mnist` or `synthetic`;
///  - a folder: of IDX files, CIFAR's binary files, or images in a sub-folder for each class (or `train/` and `test/`
///    with these in them);
///  - files, by path, glob pattern (`train-*-of-*`) or several with commas between them, plain, gzip or zstd: .csv .tsv
///    .libsvm .svm .npy .npz .bin (tokens) .txt (text) .tfrecord .tfrecords .tar (WebDataset). A name that tells
///    nothing is taken for what the first bytes say.
///
/// The test set is `options.test`; else what the data itself has as such (t10k files, test_batch.bin, a folder `test`,
/// `NAME.test.bin` beside NAME.bin); else every tenth sample, or of tokens the last tenth of the stream.
///
/// PNG and JPEG images that are features of TFRecord are decoded. Bytes of images become floats, and they and the
/// numbers of tables are normalised by the mean and deviation of the training set: images per channel (those that have
/// to be decoded: measured on 10,000), numbers of tables each.
///
/// Throws InvalidArgument if there is no such data, with the name that was probably meant, or an option does not fit
/// it; IoError or Corrupt as the sources do.
Opened open(const std::string& spec, const OpenOptions& options = {});

/// Opens what `spec` names as samples for a model that was trained on data with this encoding: a file to predict, or a
/// further test set. Of a folder with a test part, that part. Targets may be missing. Throws as open(), and
/// InvalidArgument that names the field if the data does not fit the encoding.
DatasetPtr open_like(const std::string& spec, const Encoding& encoding, const OpenOptions& options = {});

/// The names that `spec` can have besides files.
const std::vector<std::string>& named_data();

}  // namespace trireme::data
