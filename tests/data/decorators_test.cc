#include "trireme/dataset.h"

#include "base/error.h"
#include "data/sharding.h"
#include "support.h"

namespace trireme::data {
namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::int64_t>;

/// Four samples of 1x2 whose features are 0..7; labels 0, 1, 0, 1.
std::shared_ptr<const Dataset> numbers() {
  return std::make_shared<MemoryDataset>(MemoryDataset::Content{
      .name = "numbers", .shape = {1, 2}, .classes = 2, .features = {0, 1, 2, 3, 4, 5, 6, 7}, .labels = {0, 1, 0, 1}});
}

TEST(MemoryData, RefusesInconsistentContent) {
  const auto make = [](std::vector<std::int64_t> shape, Floats features, Labels labels) {
    return MemoryDataset({.name = "x", .shape = shape, .classes = 2, .features = features, .labels = labels});
  };
  EXPECT_FAILS(make({2}, {1, 2, 3}, {0}), InvalidArgument, "3 numbers", "1 samples of 2");
  EXPECT_FAILS(make({2}, {1, 2}, {2}), InvalidArgument, "label 2", "0 to 1");
  EXPECT_FAILS(make({}, {}, {}), InvalidArgument, "shape");
  EXPECT_FAILS(make({0, 3}, {}, {}), InvalidArgument, "0x3");
  EXPECT_FAILS(make({1 << 30, 1 << 30, 1 << 30}, {}, {}), InvalidArgument, "product");
}

TEST(NormalizedData, OneForAllFeatures) {
  const Normalized dataset(numbers(), {.mean = 1, .std = 2});
  Batch batch;
  dataset.read(std::vector<std::uint64_t>{3}, batch);
  EXPECT_EQ(batch.features, (Floats{2.5, 3}));
  EXPECT_EQ(batch.labels, (Labels{1}));
  EXPECT_THAT(dataset.describe(), testing::HasSubstr("numbers: 4 samples of 1x2 in 2 classes, normalised by mean 1"));
}

TEST(NormalizedData, EachFeatureByItsOwn) {
  const Normalized dataset(numbers(), measure_features(*numbers()));
  const Batch batch = read_all(dataset);
  for (std::size_t column = 0; column < 2; ++column) {
    EXPECT_FLOAT_EQ(batch.features[column], -1.3416408f);  // 0, 2, 4, 6: mean 3, deviation sqrt(5)
    EXPECT_FLOAT_EQ(batch.features[6 + column], 1.3416408f);
  }
}

TEST(NormalizedData, ConstantFeatureBecomesZero) {
  const auto constant = std::make_shared<MemoryDataset>(MemoryDataset::Content{
      .name = "x", .shape = {1}, .classes = 1, .features = {0.1f, 0.1f, 0.1f}, .labels = {0, 0, 0}});
  const Batch batch = read_all(Normalized(constant, measure_features(*constant)));
  EXPECT_THAT(batch.features, testing::Each(testing::FloatNear(0, 1e-6f)));
}

TEST(NormalizedData, RefusesBadNumbers) {
  EXPECT_FAILS(Normalized(numbers(), {.mean = 0, .std = 0}), InvalidArgument, "deviation 0");
  EXPECT_FAILS(Normalized(numbers(), {.mean = NAN, .std = 1}), InvalidArgument, "mean nan");
  EXPECT_FAILS(Normalized(numbers(), std::vector<Normalization>(3)), InvalidArgument, "3 normalisations", "2 features");
}

TEST(SubsetData, RenumbersRowsAlsoNested) {
  const auto subset = std::make_shared<Subset>(numbers(), std::vector<std::uint64_t>{3, 1, 0});
  const Subset nested(subset, {2, 0});
  EXPECT_EQ(nested.size(), 2u);
  EXPECT_EQ(read_all(nested).features, (Floats{0, 1, 6, 7}));
  EXPECT_EQ(read_all(nested).labels, (Labels{0, 1}));
  EXPECT_THAT(nested.describe(), testing::StartsWith("2 samples out of 3 samples out of numbers"));
  Batch batch;
  EXPECT_FAILS(nested.read(std::vector<std::uint64_t>{2}, batch), InvalidArgument, "sample 2", "below 2");
  EXPECT_FAILS(Subset(numbers(), {4}), InvalidArgument, "row 4", "below 4");
}

TEST(ColumnsData, KeepsSomeFeatures) {
  const Columns dataset(numbers(), {1});
  EXPECT_EQ(dataset.sample_shape(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(read_all(dataset).features, (Floats{1, 3, 5, 7}));
  EXPECT_EQ(read_all(dataset).labels, (Labels{0, 1, 0, 1}));
  EXPECT_EQ(read_all(Columns(numbers(), {0, 1})).features, read_all(*numbers()).features);
}

TEST(ColumnsData, RefusesBadColumns) {
  EXPECT_FAILS(Columns(numbers(), {}), InvalidArgument, "at least one");
  EXPECT_FAILS(Columns(numbers(), {1, 0}), InvalidArgument, "increasing");
  EXPECT_FAILS(Columns(numbers(), {0, 0}), InvalidArgument, "each once");
  EXPECT_FAILS(Columns(numbers(), {2}), InvalidArgument, "column 2", "below 2");
}

TEST(ColumnsData, BlocksCoverEveryFeature) {
  const auto source = numbers();
  Floats joined;
  for (const Shard& shard : column_blocks(source->sample_elements(), 2).shards) {
    const Batch batch = read_all(Columns(source, shard.items()));
    joined.insert(joined.end(), batch.features.begin(), batch.features.end());
  }
  EXPECT_EQ(joined, (Floats{0, 2, 4, 6, 1, 3, 5, 7}));
}

}  // namespace
}  // namespace trireme::data
