#include <cmath>

#include "trireme/sources.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

// The set itself is part of the build's requirements (dataset-fashion-mnist): without it these tests fail.

TEST(FashionMnistData, HasItsKnownContent) {
  const Split sets = load_fashion_mnist();
  EXPECT_EQ(sets.train->size(), 60000u);
  EXPECT_EQ(sets.test->size(), 10000u);
  for (const auto& part : {sets.train, sets.test}) {
    EXPECT_EQ(sample_shape(*part), (std::vector<std::int64_t>{1, 28, 28}));
    EXPECT_EQ(classes(*part), 10);
    std::vector<std::uint64_t> per_class(10);
    for (const std::int64_t label : labels(read_all(*part))) ++per_class[static_cast<std::size_t>(label)];
    EXPECT_THAT(per_class, testing::Each(part->size() / 10));
  }
  Batch batch;
  sets.train->read(first_indices(10), batch);
  EXPECT_EQ(labels(batch), (std::vector<std::int64_t>{9, 0, 0, 3, 0, 2, 7, 2, 5, 5}));
}

TEST(FashionMnistData, IsNormalisedByItsOwnStatistics) {
  const Split sets = load_fashion_mnist();
  const Batch all = read_all(*sets.train);
  double sum = 0;
  double squares = 0;
  for (const float value : features(all)) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(features(all).size());
  EXPECT_NEAR(sum / count, 0, 1e-3);
  EXPECT_NEAR(std::sqrt(squares / count), 1, 1e-3);
}

TEST(FashionMnistData, MissingSaysHowToGetIt) {
  const TempFolder folder;
  EXPECT_FAILS(load_fashion_mnist(folder.path()), IoError, folder.path().string(), "train-labels-idx1-ubyte",
               "dataset-fashion-mnist", "--data-dir", "--data synthetic");
}

TEST(FashionMnistData, TakesFilesWithAndWithoutEnding) {
  const TempFolder folder;
  const std::string images = std::string("\0\0\10\3\0\0\0\1\0\0\0\34\0\0\0\34", 16) + std::string(784, '\7');
  const std::string numbers("\0\0\10\1\0\0\0\1\5", 9);
  folder.write("train-images-idx3-ubyte", images);
  folder.write("train-labels-idx1-ubyte.gz", gzipped(numbers));
  folder.write("t10k-images-idx3-ubyte.gz", gzipped(images));
  EXPECT_FAILS(load_fashion_mnist(folder.path()), IoError, "t10k-labels-idx1-ubyte", "dataset-fashion-mnist");
  folder.write("t10k-labels-idx1-ubyte", numbers);
  const Split sets = load_fashion_mnist(folder.path());
  EXPECT_EQ(labels(read_all(*sets.test)), (std::vector<std::int64_t>{5}));
}

}  // namespace
}  // namespace trireme::data
