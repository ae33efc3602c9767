#include "trireme/transforms.h"

#include "arrays.h"
#include "base/error.h"
#include "base/file.h"
#include "data/files/damage.h"
#include "data/files/split_file.h"
#include "data/tables/field_statistics.h"
#include "records.h"
#include "support.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;

class Inspected : public ::testing::Test {
 protected:
  std::vector<std::string> damage(const std::string& name, const std::string& bytes) {
    std::vector<std::string> lines;
    report_ =
        find_damage(folder_.write(name, bytes).string(), {}, [&](const std::string& line) { lines.push_back(line); });
    EXPECT_EQ(report_.damaged, lines.size());
    return lines;
  }

  SplitFiles split(const std::string& name, const std::string& bytes, std::uint64_t every = 3) {
    return split_file(folder_.write(name, bytes), {.every = every});
  }

  DamageReport report_;
  TempFolder folder_;
};

TEST_F(Inspected, EachDamagedRecordIsNamed) {
  std::string records;
  std::vector<std::size_t> begins;
  for (char i = 0; i < 10; ++i) {
    begins.push_back(records.size());
    records += record(float_feature("x", {static_cast<float>(i)}));
  }
  records[begins[3] + 14] ^= 1;
  records[begins[8] + 14] ^= 1;
  const auto lines = damage("t.tfrecord", records);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr(fmt::format("t.tfrecord, byte {}", begins[3])));
  EXPECT_THAT(lines[1], HasSubstr(fmt::format("t.tfrecord, byte {}", begins[8])));
  EXPECT_EQ(report_.samples, 8u);
}

TEST_F(Inspected, EachRaggedRowIsNamed) {
  const auto lines = damage("t.csv", "x,y\n1,2\n1\n3,4\n1,2,3\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("line 3"));
  EXPECT_THAT(lines[1], HasSubstr("line 5"));
  const std::string packed = gzipped("x,y\n" + std::string(100000, '1') + "\n");
  EXPECT_EQ(damage("t.csv.gz", packed.substr(0, packed.size() / 2)).size() > 0, true);  // and it ends
  EXPECT_TRUE(damage("sound.csv", "x,y\n1,0\n2,1\n").empty());
  EXPECT_EQ(report_.samples, 2u);
  EXPECT_FAILS(find_damage((folder_ / "none.csv").string(), {}, [](const std::string&) {}), InvalidArgument,
               "none.csv");
}

TEST_F(Inspected, TablesAreSplitByRowsWithTheHeaderInBoth) {
  const SplitFiles files = split("t.csv", "x,y\n1,\"a\nb\"\n2,b\n\n3,c\n4,d");
  EXPECT_EQ(read_file(files.train), "x,y\n1,\"a\nb\"\n2,b\n4,d\n");
  EXPECT_EQ(read_file(files.test), "x,y\n3,c\n");
  EXPECT_EQ(files.train.filename(), "t.train.csv");
  EXPECT_EQ(files.train_samples, 3u);
  EXPECT_EQ(files.test_samples, 1u);
  EXPECT_EQ(read_file(split("n.csv", "1,2\n3,4\n5,6\n").test), "5,6\n");
  EXPECT_EQ(read_file(split("p.csv.gz", gzipped("1,2\n3,4\n5,6\n")).test), "5,6\n");
}

TEST_F(Inspected, RecordsArraysAndTarsAreSplit) {
  std::string records;
  std::string tar;
  for (char i = 0; i < 6; ++i) {
    records += record(int_feature("n", {i}));
    tar += tar_file(fmt::format("{}.cls", int{i}), std::to_string(i));
  }
  const auto numbers = [](const DatasetPtr& samples) {
    const Batch batch = read_all(*samples);
    const auto values = batch.values<std::int64_t>(std::size_t{0});
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  const std::vector<std::int64_t> train{0, 1, 3, 4};
  const std::vector<std::int64_t> test{2, 5};
  SplitFiles files = split("t.tfrecord", records);
  EXPECT_EQ(numbers(load_tfrecord({files.train.string()})), train);
  EXPECT_EQ(numbers(load_tfrecord({files.test.string()})), test);
  files = split("t.tar", tar + std::string(1024, '\0'));
  EXPECT_EQ(numbers(load_webdataset({files.train.string()})), train);
  EXPECT_EQ(numbers(load_webdataset({files.test.string()})), test);
  files = split("t.npy", npy_file("<i8", "(6, 1)", std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers(load_npy({files.train.string()})), train);
  EXPECT_EQ(numbers(load_npy({files.test.string()})), test);
}

TEST_F(Inspected, StreamsAreCutNearTheEnd) {
  SplitFiles files = split("t.txt", "one\ntwo\nthree\nfour\n", 4);
  EXPECT_EQ(read_file(files.train), "one\ntwo\nthree\n");
  EXPECT_EQ(read_file(files.test), "four\n");
  files = split("t.bin", std::string(20, 'x'), 4);
  EXPECT_EQ(files.train_samples, 7u);
  EXPECT_EQ(files.test_samples, 3u);
}

TEST_F(Inspected, WhatCannotBeSplitIsRefusedAndNothingWritten) {
  EXPECT_FAILS(split("t.csv", "x,y\n1,2\n"), InvalidArgument, "too few");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t.train.csv"));
  EXPECT_FAILS(split("t.npz", zip_file({}, false)), InvalidArgument, "t.npz is npz");
  EXPECT_FAILS(split("t.csv", "x,y\n1,2\n", 1), InvalidArgument, "leaves none to train on");
}

TEST(FieldStatistics, QuantitiesAndClasses) {
  const auto samples = in_memory("m", {input("x", std::vector<float>{1, 10, 3, 30}, {2}), label("y", {0, 1}, 3)});
  const auto statistics = statistics_of(*samples);
  ASSERT_EQ(statistics[0].quantities.size(), 2u);
  EXPECT_EQ(statistics[0].quantities[0].least(), 1);
  EXPECT_EQ(statistics[0].quantities[0].mean(), 2);
  EXPECT_EQ(statistics[0].quantities[1].most(), 30);
  EXPECT_EQ(statistics[0].quantities[1].deviation(), 10);
  EXPECT_EQ(statistics[1].counts[0], (std::map<std::int64_t, std::uint64_t>{{0, 1}, {1, 1}}));
}

TEST(FieldStatistics, WhatIsNotFiniteIsCountedApart) {
  Moments moments;
  for (const double value : {1.0, std::numeric_limits<double>::quiet_NaN(), 3.0}) moments.add(value);
  EXPECT_EQ(moments.count(), 2u);
  EXPECT_EQ(moments.not_finite(), 1u);
  EXPECT_EQ(moments.mean(), 2);
}

TEST(SelectedFields, FieldsGetOtherRolesTypesAndClasses) {
  const auto samples =
      in_memory("m", {input("x", std::vector<float>{1, 2}), input("y", std::vector<std::uint8_t>{0, 2})});
  const auto chosen = select(samples, {{.name = "y", .dtype = DType::kI64, .role = Role::kTarget, .classes = {3}}});
  EXPECT_EQ(chosen->schema().describe(), "y of 3 classes");
  EXPECT_THAT(read_all(*chosen).values<std::int64_t>("y"), ::testing::ElementsAre(0, 2));
  const auto both = select(samples, {{.name = "x", .role = Role::kTarget}, {.name = "y", .dtype = DType::kU8}});
  EXPECT_THAT(read_all(*both).values<float>("x"), ::testing::ElementsAre(1.0f, 2.0f));
  EXPECT_EQ(both->schema()[0].role, Role::kTarget);
  EXPECT_FAILS(select(samples, {{.name = "z"}}), InvalidArgument, "z");
  EXPECT_FAILS(select(samples, {{.name = "x", .dtype = DType::kI64}}), InvalidArgument, "field 'x'");
  EXPECT_FAILS(read_all(*select(samples, {{.name = "y", .dtype = DType::kU8, .classes = {2}}})), Corrupt, "y");
}

}  // namespace
}  // namespace trireme::data
