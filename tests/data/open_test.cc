#include "trireme/open.h"

#include "arrays.h"
#include "base/error.h"
#include "images.h"
#include "records.h"
#include "support.h"

namespace trireme::data {
namespace {

class OpenData : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    return folder_.write(name, bytes).string();
  }

  /// A table of 30 rows.
  static std::string rows() {
    std::string text = "place,x,y\n";
    for (int i = 0; i < 30; ++i) text += fmt::format("{},{},{}\n", i % 3 == 0 ? "Rome" : "Oslo", i, i % 2);
    return text;
  }

  TempFolder folder_;
};

TEST_F(OpenData, EveryTenthRowIsForTestingAndNumbersAreNormalised) {
  const Opened opened = open(write("t.csv", rows()));
  EXPECT_EQ(opened.split.train->size(), 27u);
  EXPECT_EQ(opened.split.test->size(), 3u);
  EXPECT_EQ(opened.encoding.kind, "table");
  const Batch batch = read_all(*opened.split.train);
  double sum = 0;
  double squares = 0;
  for (const float x : batch.values<float>("numbers")) {
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 27, 0, 1e-5);
  EXPECT_NEAR(squares / 27, 1, 1e-4);
}

TEST_F(OpenData, EncodingSurvivesJsonAndOpensOtherData) {
  const Opened opened = open(write("t.csv", rows()));
  const Encoding again = Encoding::parse(opened.encoding.to_json());
  EXPECT_EQ(again.to_json(), opened.encoding.to_json());
  EXPECT_EQ(again.table, opened.encoding.table);
  EXPECT_EQ(again.fields, opened.encoding.fields);
  const DatasetPtr rows_to_predict = open_like(write("new.csv", "x,place\n29,Rome\n0,Paris\n"), again);
  const Batch batch = read_all(*rows_to_predict);
  const Normalization by = opened.encoding.normalization.at("numbers").front();
  EXPECT_FLOAT_EQ(batch.values<float>("numbers")[0], (29 - by.mean) / by.std);
  EXPECT_THAT(batch.values<std::int64_t>("categories"), ::testing::ElementsAre(2, 0));
  EXPECT_FALSE(rows_to_predict->schema().find("y"));
  EXPECT_FAILS(Encoding::parse("{}"), Corrupt, "damaged");
  EXPECT_FAILS(Encoding::parse("["), Corrupt, "damaged");
  EXPECT_FAILS(open_like(write("new.txt", "some text"), again), InvalidArgument, "trained on 'table'");
}

TEST_F(OpenData, ATestSetOfItsOwnHasTheEncodingOfTheTrainingSet) {
  const Opened opened =
      open(write("train.csv", rows()), {.test = write("test.csv", "place,x,y\nParis,1,0\nRome,2,1\n")});
  EXPECT_EQ(opened.split.train->size(), 30u);
  EXPECT_THAT(read_all(*opened.split.test).values<std::int64_t>("categories"), ::testing::ElementsAre(0, 2));
}

TEST_F(OpenData, WrongNamesSayWhatIsMeant) {
  write("flights.csv", rows());
  EXPECT_FAILS(open("fashion-minst"), InvalidArgument, "no data set 'fashion-minst'", "did you mean 'fashion-mnist'");
  EXPECT_FAILS(open((folder_ / "flight.csv").string()), InvalidArgument, "did you mean", "flights.csv");
  EXPECT_FAILS(open(write("what.xyz", "hello there")), InvalidArgument, "of no kind that is read", ".tfrecord");
  EXPECT_FAILS(open((folder_ / "none-*.csv").string()), InvalidArgument, "no file matches");
  EXPECT_FAILS(open(folder_.path().string()), InvalidArgument, "has neither IDX files", "flights.csv");
  EXPECT_FAILS(open("synthetic", {.augment = "shift"}), InvalidArgument, "no augmentation 'shift'");
  EXPECT_FAILS(open("synthetic", {.augment = "miror"}), InvalidArgument, "did you mean 'mirror'");
  EXPECT_FAILS(open("synthetic", {.augment = "shift:30"}), InvalidArgument, "out of sight");
  EXPECT_FAILS(open((folder_ / "flights.csv").string(), {.augment = "mirror"}), InvalidArgument, "changes images");
  EXPECT_FAILS(open("synthetic", {.targets = {"lable"}}), InvalidArgument, "no field 'lable'", "did you mean 'label'");
}

TEST_F(OpenData, FoldersAreTriedInOrder) {
  std::filesystem::create_directories(folder_ / "empty");
  write("full/t.csv", rows());
  const Mirrors both = Mirrors::parse((folder_ / "empty").string() + "," + (folder_ / "full").string());
  EXPECT_EQ(open("t.csv", {.folders = both}).split.train->size(), 27u);
  EXPECT_FAILS(open("u.csv", {.folders = both}), IoError, "empty/u.csv", "full/u.csv");
  EXPECT_FAILS(open("fashion-minst", {.folders = both}), InvalidArgument, "did you mean 'fashion-mnist'");
}

TEST_F(OpenData, TheTailOfATextIsForTesting) {
  const Opened opened = open(write("t.txt", std::string(980, 'a') + std::string(120, 'b')), {.length = 10});
  EXPECT_EQ(opened.split.train->size() + opened.split.test->size(), 109u);
  const Batch batch = read_all(*opened.split.test);
  for (const std::int32_t token : batch.values<std::int32_t>("tokens")) EXPECT_EQ(token, 'b');
}

TEST_F(OpenData, TokensHaveTheirTestPartBesideThem) {
  write("t.bin", std::string(200, '\1'));
  write("t.test.bin", std::string(100, '\1'));
  const Opened opened = open((folder_ / "t.bin").string(), {.length = 9});
  EXPECT_EQ(opened.split.train->size(), 11u);
  EXPECT_EQ(opened.split.test->size(), 5u);
}

TEST_F(OpenData, FoldersOfImagesBecomeNormalisedFloats) {
  for (const char* const part : {"train", "test"}) {
    for (int i = 0; i < 4; ++i) {
      write(fmt::format("{}/dark/{}.png", part, i), plain_png(4, 10, 20, 30));
      write(fmt::format("{}/light/{}.png", part, i), plain_png(4, 210, 220, 230));
    }
  }
  const Opened opened = open(folder_.path().string(), {.augment = "shift:1,mirror"});
  EXPECT_EQ(opened.split.train->schema().describe(), "image 3x4x4, label of 2 classes");
  EXPECT_EQ(opened.split.test->size(), 8u);
  const Batch batch = read_all(*opened.split.test);
  EXPECT_NEAR(batch.values<float>("image")[0], -1, 1e-4);
  EXPECT_EQ(opened.encoding.normalization.at("image").size(), 3u);
}

/// Six samples of two numbers and a class, in every format that can hold them.
TEST_F(OpenData, TheSameSamplesThroughEverySourceAreTheSameBatches) {
  std::string csv = "a,b,label\n";
  std::string libsvm;
  std::string records;
  std::string tar;
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (int i = 0; i < 6; ++i) {
    const float a = 0.5f + static_cast<float>(i);
    const float b = static_cast<float>(i * i) - 0.25f;
    csv += fmt::format("{},{},{}\n", a, b, i % 2);
    libsvm += fmt::format("{} 1:{} 2:{}\n", i % 2, a, b);
    records += record(float_feature("x", {a, b}) + int_feature("label", {static_cast<char>(i % 2)}));
    tar += tar_file(fmt::format("{}.cls", i), std::to_string(i % 2)) +
           tar_file(fmt::format("{}.x.npy", i), npy_file("<f4", "(2,)", std::vector<float>{a, b}));
    x.insert(x.end(), {a, b});
    y.push_back(i % 2);
  }
  const std::string npz =
      zip_file({{"x.npy", npy_file("<f4", "(6, 2)", x)}, {"label.npy", npy_file("<i8", "(6,)", y)}}, true);
  const auto load = [&](const std::string& name, const std::string& bytes) {
    // Rows 0 to 5 of a test set, which is read as it is.
    const std::string file = write(name, bytes);
    const Opened opened = open(file, {.test = file});
    const Batch batch = read_all(*opened.split.test);
    const Schema& schema = opened.split.test->schema();
    const std::span<const float> values = batch.values<float>(schema.with(Role::kInput).front());
    std::vector<float> numbers(values.begin(), values.end());
    const auto& by = opened.encoding.normalization;
    for (std::size_t i = 0; i < numbers.size() && by.contains("numbers"); ++i) {
      numbers[i] = numbers[i] * by.at("numbers")[i % 2].std + by.at("numbers")[i % 2].mean;
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], x[i], 1e-5) << name;
    const std::size_t target = schema.with(Role::kTarget).front();
    EXPECT_EQ(schema[target].classes, std::vector<std::int64_t>{2}) << name;
    EXPECT_THAT(batch.values<std::int64_t>(target), ::testing::ElementsAreArray(y)) << name;
  };
  load("t.csv", csv);
  load("t.csv.gz", gzipped(csv));
  load("t.libsvm", libsvm);
  load("t.tfrecord", records);
  load("t.tfrecord.gz", gzipped(records));
  load("t.tar", tar + std::string(1024, '\0'));
  load("t.npz", npz);
  load("without_ending", npz);
}

TEST_F(OpenData, ImagesInRecordsAreDecoded) {
  std::string records;
  for (char i = 0; i < 12; ++i) {
    records += record(bytes_feature("image", plain_png(i < 6 ? 2 : 4, static_cast<std::uint8_t>(10 * i), 20, 30)) +
                      int_feature("label", {static_cast<char>(i % 3)}));
  }
  const std::string file = write("t.tfrecord", records);
  const Opened opened = open(file, {.image_size = {.height = 3, .width = 3}});
  EXPECT_EQ(opened.split.train->schema().describe(), "image 3x3x3, label of 3 classes");
  EXPECT_EQ(open_like(file, opened.encoding)->size(), 12u);
  EXPECT_EQ(read_all(*open_like(file, opened.encoding)).size(), 12u);
}

TEST_F(OpenData, FlatFieldsGetAShape) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{},{},{},{}\n", i, i + 1, i + 2, i * i, i % 2);
  const std::string file = write("t.csv", text);
  EXPECT_EQ(open(file, {.shapes = {{"numbers", {1, 2, 2}}}}).split.train->schema().describe(),
            "numbers 1x2x2, column 4 of 2 classes");
  EXPECT_FAILS(open(file, {.shapes = {{"numbers", {3}}}}), InvalidArgument, "field 'numbers'");
  EXPECT_FAILS(open(file, {.shapes = {{"number", {4}}}}), InvalidArgument, "did you mean 'numbers'");
}

TEST_F(OpenData, ClassesThatAreNotWrittenAreCounted) {
  std::string records;
  for (char i = 0; i < 20; ++i)
    records += record(float_feature("x", {1}) + int_feature("kind", {static_cast<char>(i % 5)}));
  const std::string file = write("t.tfrecord", records);
  EXPECT_EQ(open(file, {.targets = {"kind"}}).split.train->schema().describe(), "kind of 5 classes, x");
  EXPECT_EQ(open(file, {.targets = {"kind"}, .classes = 7}).split.train->schema()[0].limit(0), 7);
  EXPECT_EQ(open(file, {.ignore = {"kind"}}).split.train->schema().describe(), "x");
  EXPECT_FAILS(read_all(*open(file, {.targets = {"kind"}, .classes = 3}).split.train), Corrupt, "kind");
}

}  // namespace
}  // namespace trireme::data
