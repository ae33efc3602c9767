#include "trireme/transforms.h"

#include <set>

#include "base/error.h"
#include "data/sharding.h"
#include "support.h"

namespace trireme::data {
namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::int64_t>;

/// Four samples of 1x2 whose features are 0..7; labels 0, 1, 0, 1.
DatasetPtr numbers() {
  return in_memory("numbers",
                   {input<float>("features", {0, 1, 2, 3, 4, 5, 6, 7}, {1, 2}), label("label", {0, 1, 0, 1}, 2)});
}

/// `count` samples of one float, counted from `first`.
DatasetPtr counted(std::uint64_t count, float first = 0) {
  Floats values(count);
  std::iota(values.begin(), values.end(), first);
  return in_memory("counted", {input("x", std::move(values))});
}

/// Words of different lengths: 1, 2, 3, ... tokens each.
class Words final : public Dataset {
 public:
  explicit Words(std::uint64_t count)
      : Dataset(Schema{{.name = "tokens", .dtype = DType::kI32, .shape = {kVaries}, .classes = {100}, .padding = 99},
                       {.name = "id", .dtype = DType::kI64, .role = Role::kOther}}),
        count_(count) {}
  std::uint64_t size() const override { return count_; }
  std::string describe() const override { return "words"; }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    std::int64_t longest = 0;
    for (const std::uint64_t index : indices) longest = std::max(longest, static_cast<std::int64_t>(index) + 1);
    out.make_room(schema(), indices.size(), std::vector<std::int64_t>{longest, 0});
    for (std::size_t i = 0; i < indices.size(); ++i) {
      out.lengths(0)[i] = static_cast<std::int64_t>(indices[i]) + 1;
      std::fill_n(out.values<std::int32_t>(0).data() + i * static_cast<std::size_t>(longest), indices[i] + 1,
                  static_cast<std::int32_t>(indices[i]));
      out.values<std::int64_t>(1)[i] = static_cast<std::int64_t>(indices[i]);
    }
    out.pad(0);
  }

  std::uint64_t count_;
};

std::vector<std::int32_t> tokens(const Batch& batch) {
  const auto values = batch.values<std::int32_t>("tokens");
  return {values.begin(), values.end()};
}

Batch read(const Dataset& dataset, std::vector<std::uint64_t> indices, std::uint64_t epoch = 0) {
  Batch batch;
  dataset.read(indices, batch, epoch);
  return batch;
}

TEST(SchemaOfSamples, RefusesWhatMakesNoSense) {
  EXPECT_FAILS((Schema{{.name = ""}}), InvalidArgument, "no name");
  EXPECT_FAILS((Schema{{.name = "x"}, {.name = "x"}}), InvalidArgument, "two fields", "'x'");
  EXPECT_FAILS((Schema{{.name = "x", .shape = {2, kVaries}}}), InvalidArgument, "'x'", "2x*", "only the first");
  EXPECT_FAILS((Schema{{.name = "x", .shape = {0}}}), InvalidArgument, "extents are positive");
  EXPECT_FAILS((Schema{{.name = "x", .classes = {3}}}), InvalidArgument, "'x'", "F32", "whole numbers");
  EXPECT_FAILS((Schema{{.name = "x", .dtype = DType::kI64, .shape = {3}, .classes = {3, 4}}}), InvalidArgument,
               "2 limits", "3 numbers");
}

TEST(SchemaOfSamples, NamesItsFieldsAndFindsThem) {
  const Schema schema{{.name = "image", .dtype = DType::kU8, .shape = {3, 32, 32}},
                      {.name = "tokens", .dtype = DType::kI64, .shape = {kVaries}, .classes = {50257}},
                      {.name = "delay", .role = Role::kTarget}};
  EXPECT_EQ(schema.describe(), "image u8 3x32x32, tokens * of 50257 classes, delay");
  EXPECT_EQ(schema.index_of("delay"), 2u);
  EXPECT_EQ(schema.with(Role::kInput), (std::vector<std::size_t>{0, 1}));
  EXPECT_FAILS(schema.index_of("imge"), InvalidArgument, "no field 'imge'", "did you mean 'image'", "tokens");
}

TEST(BatchOfSamples, RefusesNumbersOfAnotherType) {
  const Batch batch = read_all(*numbers());
  EXPECT_FAILS(batch.values<double>(0), InvalidArgument, "'features'", "F32", "F64");
  EXPECT_FAILS(batch.values<float>("label"), InvalidArgument, "'label'", "I64");
}

TEST(BatchOfSamples, LivesInTheMemoryThatItIsGiven) {
  int asked = 0;
  Batch batch([&](std::size_t bytes) {
    ++asked;
    return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
  });
  for (int i = 0; i < 3; ++i) numbers()->read(first_indices(4), batch);
  EXPECT_EQ(asked, 2);  // a buffer for each field, kept
}

TEST(MemoryData, RefusesInconsistentContent) {
  EXPECT_FAILS(in_memory("x", {input<float>("f", {1, 2, 3}, {2}), label("l", {0}, 2)}), InvalidArgument, "3 numbers",
               "'f'");
  EXPECT_FAILS(in_memory("x", {input<float>("f", {1, 2}, {2}), label("l", {0, 1}, 2)}), InvalidArgument, "2 numbers",
               "'l'", "1 samples");
  EXPECT_FAILS(in_memory("x", {input<float>("f", {1, 2}, {2}), label("l", {2}, 2)}), InvalidArgument, "sample 0", "l 2",
               "0 to 1");
  EXPECT_FAILS(in_memory("x", {input<float>("f", {}, {1 << 30, 1 << 30})}), InvalidArgument, "product");
  EXPECT_FAILS(in_memory("x", {}), InvalidArgument, "at least one field");
}

TEST(NormalizedData, OneForAllNumbers) {
  const auto dataset = normalize(numbers(), "features", {{.mean = 1, .std = 2}});
  const Batch batch = read(*dataset, {3});
  EXPECT_EQ(features(batch), (Floats{2.5, 3}));
  EXPECT_EQ(labels(batch), (Labels{1}));
  EXPECT_THAT(dataset->describe(), testing::HasSubstr("numbers: 4 samples of features 1x2, label of 2 classes, "
                                                      "features normalised by mean 1"));
}

TEST(NormalizedData, EachNumberByItsOwn) {
  const auto dataset = normalize(numbers(), "features", measure(*numbers(), "features"));
  const Floats values = features(read_all(*dataset));
  for (std::size_t column = 0; column < 2; ++column) {
    EXPECT_FLOAT_EQ(values[column], -1.3416408f);  // 0, 2, 4, 6: mean 3, deviation sqrt(5)
    EXPECT_FLOAT_EQ(values[6 + column], 1.3416408f);
  }
}

TEST(NormalizedData, BytesBecomeFloatsByChannel) {
  const auto images = in_memory("images", {input<std::uint8_t>("image", {10, 20, 30, 40, 50, 60, 70, 80}, {2, 1, 2})});
  const auto dataset = normalize(images, "image", {{.mean = 10, .std = 10}, {.mean = 30, .std = 5}});
  EXPECT_EQ(dataset->schema()[0].dtype, DType::kF32);
  EXPECT_EQ(features(read_all(*dataset)), (Floats{0, 1, 0, 2, 4, 5, 8, 10}));
}

TEST(NormalizedData, ConstantFeatureBecomesZero) {
  const auto constant = in_memory("x", {input<float>("f", {0.1f, 0.1f, 0.1f}, {1})});
  EXPECT_THAT(features(read_all(*normalize(constant, "f", measure(*constant, "f")))),
              testing::Each(testing::FloatNear(0, 1e-6f)));
}

TEST(NormalizedData, RefusesBadNumbers) {
  EXPECT_FAILS(normalize(numbers(), "features", {{.mean = 0, .std = 0}}), InvalidArgument, "deviation 0");
  EXPECT_FAILS(normalize(numbers(), "features", {{.mean = NAN, .std = 1}}), InvalidArgument, "mean nan");
  EXPECT_FAILS(normalize(numbers(), "features", std::vector<Normalization>(3)), InvalidArgument, "3 normalisations",
               "2 numbers");
  EXPECT_FAILS(normalize(numbers(), "label", {{}}), InvalidArgument, "'label'", "I64");
}

TEST(SubsetData, RenumbersRowsAlsoNested) {
  const auto nested = subset(subset(numbers(), {3, 1, 0}), {2, 0});
  EXPECT_EQ(nested->size(), 2u);
  EXPECT_EQ(features(read_all(*nested)), (Floats{0, 1, 6, 7}));
  EXPECT_EQ(labels(read_all(*nested)), (Labels{0, 1}));
  EXPECT_THAT(nested->describe(), testing::StartsWith("2 samples out of 3 samples out of numbers"));
  EXPECT_FAILS(read(*nested, {2}), InvalidArgument, "sample 2", "below 2");
  EXPECT_FAILS(subset(numbers(), {4}), InvalidArgument, "row 4", "below 4");
}

TEST(ConcatData, FollowsOneByTheOther) {
  const auto both = concat({counted(3), counted(2, 100)});
  EXPECT_EQ(features(read(*both, {4, 0, 3, 2})), (Floats{101, 0, 100, 2}));
  EXPECT_EQ(features(read(*both, {1, 2})), (Floats{1, 2}));
  EXPECT_FAILS(concat({counted(1), numbers()}), InvalidArgument, "different fields", "counted", "numbers");
  EXPECT_FAILS(concat({}), InvalidArgument, "at least one");
}

TEST(ConcatData, PadsToTheLongestOfAll) {
  const auto both = concat({std::make_shared<Words>(3), std::make_shared<Words>(2)});
  const Batch batch = read(*both, {2, 3, 4});
  EXPECT_EQ(tokens(batch), (std::vector<std::int32_t>{2, 2, 2, 0, 99, 99, 1, 1, 99}));
  EXPECT_THAT(batch.lengths(0), testing::ElementsAre(3, 1, 2));
}

TEST(MixedData, HoldsEachSourceByItsWeightAndGoesOnInTheNextEpoch) {
  const auto mixture = mix({{counted(10), 1}, {counted(1000, 100), 3}}, 40);
  ASSERT_EQ(mixture->size(), 40u);
  std::set<float> of_large;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    int small = 0;
    for (const float value : features(read(*mixture, first_indices(40), epoch))) {
      if (value < 100) {
        ++small;
      } else {
        EXPECT_TRUE(of_large.insert(value).second) << value << " came twice";
      }
    }
    EXPECT_EQ(small, 10);
  }
  EXPECT_FAILS(mix({{counted(1), 0}}), InvalidArgument, "weight of 0");
}

TEST(WindowsOfData, AreRunsOfNeighbours) {
  const auto runs = windows(counted(10), 4, 3);
  EXPECT_EQ(runs->size(), 3u);
  EXPECT_EQ(sample_shape(*runs), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(features(read(*runs, {2, 0})), (Floats{6, 7, 8, 9, 0, 1, 2, 3}));
  EXPECT_EQ(windows(counted(10), 4)->size(), 2u);
  EXPECT_FAILS(windows(counted(3), 4), InvalidArgument, "no window of 4");
  EXPECT_FAILS(windows(std::make_shared<Words>(3), 2), InvalidArgument, "'tokens'", "varies");
}

TEST(ColumnsData, KeepsSomeNumbers) {
  const auto dataset = columns(numbers(), "features", {1});
  EXPECT_EQ(sample_shape(*dataset), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(features(read_all(*dataset)), (Floats{1, 3, 5, 7}));
  EXPECT_EQ(labels(read_all(*dataset)), (Labels{0, 1, 0, 1}));
  EXPECT_EQ(features(read_all(*columns(numbers(), "features", {0, 1}))), features(read_all(*numbers())));
}

TEST(ColumnsData, RefusesBadColumns) {
  EXPECT_FAILS(columns(numbers(), "features", {}), InvalidArgument, "at least one");
  EXPECT_FAILS(columns(numbers(), "features", {1, 0}), InvalidArgument, "increasing");
  EXPECT_FAILS(columns(numbers(), "features", {0, 0}), InvalidArgument, "each once");
  EXPECT_FAILS(columns(numbers(), "features", {2}), InvalidArgument, "column 2", "below 2");
}

TEST(ColumnsData, BlocksCoverEveryFeature) {
  Floats joined;
  for (const Shard& shard : column_blocks(2, 2).shards) {
    const Floats values = features(read_all(*columns(numbers(), "features", shard.items())));
    joined.insert(joined.end(), values.begin(), values.end());
  }
  EXPECT_EQ(joined, (Floats{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(SelectedData, ChoosesFieldsAndWhatTheyAreFor) {
  const auto dataset = select(numbers(), {"label"}, {"features"});
  EXPECT_EQ(dataset->schema()[0].role, Role::kInput);
  EXPECT_EQ(dataset->schema()[1].role, Role::kTarget);
  EXPECT_THAT(read_all(*dataset).values<std::int64_t>(0), testing::ElementsAre(0, 1, 0, 1));
  EXPECT_FAILS(select(numbers(), {"lable"}, {}), InvalidArgument, "'lable'", "did you mean 'label'");
}

TEST(CachedData, GivesTheSameAndReadsOnce) {
  int reads = 0;
  const auto source = map(numbers(), [&](Sample&, RandomStream&) { ++reads; });
  const auto kept = cache(source);
  EXPECT_EQ(reads, 4);
  EXPECT_EQ(features(read_all(*kept)), features(read_all(*numbers())));
  EXPECT_EQ(reads, 4);
  EXPECT_FAILS(cache(numbers(), 10), InvalidArgument, "bytes in memory", "10 allowed");
}

TEST(MappedData, RandomNumbersBelongToSeedEpochAndSample) {
  const auto noise = [](Sample& sample, RandomStream& random) {
    for (float& value : sample.values<float>("features")) value += static_cast<float>(random.uniform());
  };
  const auto noisy = map(numbers(), noise, {.seed = 5});
  const Floats all = features(read(*noisy, {0, 1, 2, 3}, 1));
  const Floats one = features(read(*noisy, {2}, 1));
  EXPECT_EQ(one, (Floats{all[4], all[5]}));
  EXPECT_NE(features(read(*noisy, {2}, 2)), one);
  EXPECT_NE(features(read(*map(numbers(), noise, {.seed = 6}), {2}, 1)), one);
}

TEST(MappedData, MakesSamplesOfAnotherSchema) {
  const Schema sums{{.name = "sum", .dtype = DType::kF64, .role = Role::kTarget}};
  const auto dataset = map(numbers(), sums, [](Sample& from, Sample& to, RandomStream&) {
    const auto values = from.values<float>("features");
    to.values<double>("sum")[0] = values[0] + values[1];
  });
  EXPECT_THAT(read_all(*dataset).values<double>(0), testing::ElementsAre(1, 5, 9, 13));
}

TEST(AugmentedData, ShiftsAndMirrorsWholeImages) {
  Floats pixels(9);
  std::iota(pixels.begin(), pixels.end(), 1.0f);
  const auto image = in_memory("image", {input("image", pixels, {1, 3, 3})});
  const auto shifted = random_shift(image, "image", 1);
  const auto mirrored = random_mirror(image, "image");
  std::set<Floats> shifts;
  std::set<Floats> mirrors;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    shifts.insert(features(read(*shifted, {0}, epoch)));
    mirrors.insert(features(read(*mirrored, {0}, epoch)));
  }
  EXPECT_EQ(shifts.size(), 9u);
  EXPECT_TRUE(shifts.contains(pixels));
  EXPECT_TRUE(shifts.contains(Floats{0, 0, 0, 0, 1, 2, 0, 4, 5}));  // down and right
  EXPECT_TRUE(shifts.contains(Floats{5, 6, 0, 8, 9, 0, 0, 0, 0}));  // up and left
  EXPECT_EQ(mirrors, (std::set<Floats>{pixels, {3, 2, 1, 6, 5, 4, 9, 8, 7}}));
  EXPECT_FAILS(random_shift(image, "image", 3), InvalidArgument, "3 pixels");
  EXPECT_FAILS(random_mirror(numbers(), "label"), InvalidArgument, "'label'", "no image");
}

}  // namespace
}  // namespace trireme::data
