#include <algorithm>
#include <cmath>
#include <thread>

#include "trireme/sources.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

constexpr std::size_t kPixels = 784;

/// Share of `test` whose nearest class mean, of the means over `train`, is its own class.
double nearest_mean_accuracy(const Batch& train, const Batch& test) {
  const auto train_features = train.values<float>(0);
  const auto test_features = test.values<float>(0);
  std::vector<std::vector<double>> means(10, std::vector<double>(kPixels));
  std::vector<double> counts(10);
  for (std::size_t i = 0; i < train.size(); ++i) {
    const auto label = static_cast<std::size_t>(train.values<std::int64_t>(1)[i]);
    ++counts[label];
    for (std::size_t j = 0; j < kPixels; ++j) means[label][j] += train_features[i * kPixels + j];
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    std::vector<double> distances(10);
    for (std::size_t label = 0; label < 10; ++label) {
      for (std::size_t j = 0; j < kPixels; ++j) {
        const double difference = test_features[i * kPixels + j] - means[label][j] / std::max(1.0, counts[label]);
        distances[label] += difference * difference;
      }
    }
    right += std::ranges::min_element(distances) - distances.begin() == test.values<std::int64_t>(1)[i];
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST(SyntheticData, HasTheShapeOfFashionMnist) {
  const Split sets = make_synthetic();
  EXPECT_EQ(sets.train->size(), 60000u);
  EXPECT_EQ(sets.test->size(), 10000u);
  EXPECT_EQ(sample_shape(*sets.train), (std::vector<std::int64_t>{1, 28, 28}));
  EXPECT_EQ(classes(*sets.train), 10);
  EXPECT_EQ(sets.test->describe(), "generated test set: 10000 samples of image 1x28x28, label of 10 classes");
}

TEST(SyntheticData, IsBalancedAndScaled) {
  const Batch batch = read_all(*make_synthetic({.train_samples = 5000}).train);
  std::vector<int> per_class(10);
  for (const std::int64_t label : labels(batch)) ++per_class.at(static_cast<std::size_t>(label));
  EXPECT_THAT(per_class, testing::Each(testing::AllOf(testing::Gt(400), testing::Lt(600))));
  double sum = 0;
  double squares = 0;
  for (const float value : features(batch)) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(features(batch).size());
  EXPECT_NEAR(sum / count, 0, 0.15);
  EXPECT_NEAR(std::sqrt(squares / count), 1, 0.15);
}

TEST(SyntheticData, ASampleDependsOnSeedPartAndIndexAlone) {
  const Split sets = make_synthetic({.train_samples = 100, .test_samples = 100, .seed = 7});
  const Split same = make_synthetic({.train_samples = 50, .test_samples = 60, .seed = 7});
  const Split other = make_synthetic({.train_samples = 100, .test_samples = 100, .seed = 8});
  const Batch all = read_all(*sets.train);
  Batch one;
  for (const std::uint64_t index : {49, 0, 17}) {
    same.train->read(std::vector{index}, one);
    EXPECT_TRUE(std::ranges::equal(one.values<float>(0), all.values<float>(0).subspan(index * kPixels, kPixels)));
    EXPECT_EQ(labels(one)[0], labels(all)[index]);
  }
  EXPECT_NE(features(read_all(*sets.test)), features(all));
  EXPECT_NE(features(read_all(*other.train)), features(all));
}

TEST(SyntheticData, ThreadsReadTheSame) {
  const auto dataset = make_synthetic({.train_samples = 64}).train;
  std::vector<Batch> batches(4);
  {
    std::vector<std::jthread> threads;
    for (Batch& batch : batches) threads.emplace_back([&] { batch = read_all(*dataset); });
  }
  for (const Batch& batch : batches) EXPECT_EQ(features(batch), features(batches[0]));
}

TEST(SyntheticData, IsLearnableOnlyWithManySamples) {
  const Split sets = make_synthetic({.train_samples = 4000, .test_samples = 500});
  const Batch test = read_all(*sets.test);
  Batch few;
  sets.train->read(first_indices(30), few);
  const double early = nearest_mean_accuracy(few, test);
  const double late = nearest_mean_accuracy(read_all(*sets.train), test);
  RecordProperty("nearest_mean_after_30", std::to_string(early));
  RecordProperty("nearest_mean_after_4000", std::to_string(late));
  EXPECT_GT(late, 0.5);   // far above chance for the simplest of learners
  EXPECT_LT(late, 0.97);  // which leaves something to a better one
  EXPECT_LT(early, late - 0.1);
}

TEST(SyntheticData, RefusesEmptyPartsAndBadIndices) {
  EXPECT_FAILS(make_synthetic({.train_samples = 0}), InvalidArgument, "training set");
  EXPECT_FAILS(make_synthetic({.test_samples = 0}), InvalidArgument, "test set");
  Batch batch;
  EXPECT_FAILS(make_synthetic({.train_samples = 5}).train->read(std::vector<std::uint64_t>{5}, batch), InvalidArgument,
               "sample 5");
}

}  // namespace
}  // namespace trireme::data
