#pragma once

// Views of other datasets. Each is a dataset again, costs memory only where it says so, and gives the same samples
// whoever reads them.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/dataset.h"
#include "trireme/random.h"
#include "trireme/sources.h"

namespace trireme::data {

/// Some samples, renumbered 0, 1, 2 in the order given: sample i is sample `rows[i]` of `source`. Throws
/// InvalidArgument if a row does not exist there.
DatasetPtr subset(DatasetPtr source, std::vector<std::uint64_t> rows);

/// Every n-th sample is for testing, the others for training: n = 10 leaves nine tenths. Throws InvalidArgument if one
/// of them would be empty.
Split split_off_test(const DatasetPtr& whole, std::uint64_t every = 10);

/// One dataset after the other. Throws InvalidArgument unless all have the same schema.
DatasetPtr concat(std::vector<DatasetPtr> sources);

/// One part of a mixture.
struct Share {
  DatasetPtr source = {};
  double weight = 1;
};

/// A mixture: an epoch of `samples` samples (0 = as many as all sources together) in which each source has a part by
/// its weight, spread evenly. A source that is larger than its part is visited further in each epoch; a smaller one is
/// repeated. Throws InvalidArgument unless all have the same schema and the weights are positive.
DatasetPtr mix(std::vector<Share> shares, std::uint64_t samples = 0);

/// Runs of `length` neighbouring samples, a new one every `stride` (0 = `length`): each field gets one more extent in
/// front. What is left at the end and makes no whole run is left out. Throws InvalidArgument if there is no whole run,
/// or a field already varies in length.
DatasetPtr windows(DatasetPtr source, std::uint64_t length, std::uint64_t stride = 0);

/// Each number x of `field` becomes (x - mean) / std; whole numbers become floats. One for all its numbers, or for an
/// image one per channel, or one for each number. Throws InvalidArgument if the count fits none of these.
DatasetPtr normalize(DatasetPtr source, std::string_view field, std::vector<Normalization> by);

/// Mean and deviation of each number of `field` over all samples, in two passes of small batches. A constant one gets
/// deviation 1, so that it becomes 0. Measure the training set and apply the result to the test set too.
std::vector<Normalization> measure(const Dataset& dataset, std::string_view field);

/// Some numbers of a field: what one worker sees when features are spread over workers. The field becomes flat: shape
/// {columns}. Neighbouring columns of an array of NumPy are read without the others; of other sources, or behind other
/// transforms, whole samples are read first. Throws InvalidArgument unless `columns` is non-empty, strictly increasing
/// and within the field.
DatasetPtr columns(DatasetPtr source, std::string_view field, std::vector<std::uint64_t> columns);

/// The named fields only, in this order, each with a role: what goes into the model, and what it should say.
DatasetPtr select(DatasetPtr source, const std::vector<std::string>& inputs, const std::vector<std::string>& targets);

/// Some fields, found by their names, in this order, with the roles and classes given here; whole numbers may become
/// I64, and a fixed shape another one of as many numbers. Throws InvalidArgument if there is no such field, or it
/// cannot be that. A number beyond its classes is Corrupt when it is read.
DatasetPtr select(DatasetPtr source, std::vector<Field> fields);

/// All samples, read once and kept in memory. Throws InvalidArgument if they need more than `max_bytes`.
DatasetPtr cache(const DatasetPtr& source, std::uint64_t max_bytes = std::uint64_t{4} << 30);

/// One sample of a batch, for functions that change it.
class Sample {
 public:
  Sample(Batch& batch, std::size_t index) : batch_(batch), index_(index) {}

  /// The numbers of a field. Throws InvalidArgument if they are of another type, or there is no such field.
  template <typename T>
  std::span<T> values(std::size_t field) {
    const std::span<T> all = batch_.values<T>(field);
    const std::size_t each = all.size() / batch_.size();
    return all.subspan(index_ * each, each);
  }
  template <typename T>
  std::span<T> values(std::string_view field) {
    return values<T>(batch_.schema().index_of(field));
  }

  /// The bytes of a field, whatever its type.
  std::span<std::byte> bytes(std::size_t field) {
    const std::size_t each = batch_.bytes(field).size() / batch_.size();
    return batch_.bytes(field).subspan(index_ * each, each);
  }

  const Schema& schema() const { return batch_.schema(); }

 private:
  Batch& batch_;
  std::size_t index_;
};

/// Changes a sample in place. The random numbers belong to (seed, epoch, sample): augmentation gives the same bits
/// whoever computes it, and others in each epoch. Called from several threads.
using Change = std::function<void(Sample& sample, RandomStream& random)>;

/// Makes a sample of another schema.
using Make = std::function<void(Sample& from, Sample& to, RandomStream& random)>;

struct MapOptions {
  std::uint64_t seed = 1;
  std::string what = "mapped";  ///< for describe()
};

DatasetPtr map(DatasetPtr source, Change change, const MapOptions& options = {});

/// Throws InvalidArgument if a field of `schema` varies in length.
DatasetPtr map(DatasetPtr source, Schema schema, Make make, const MapOptions& options = {});

/// Augmentation of images (channels x rows x columns, floats): shifted by up to `pixels` each way, zeros at the edges;
/// mirrored left to right, half of them.
DatasetPtr random_shift(DatasetPtr source, std::string_view field, std::int64_t pixels, std::uint64_t seed = 1);
DatasetPtr random_mirror(DatasetPtr source, std::string_view field, std::uint64_t seed = 1);

}  // namespace trireme::data
