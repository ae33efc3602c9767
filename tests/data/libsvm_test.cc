#include "trireme/sources.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

class LibsvmFile : public ::testing::Test {
 protected:
  DatasetPtr load(const std::string& text, const LibsvmOptions& options = {}) {
    return load_libsvm({folder_.write("samples.libsvm", text).string()}, options);
  }

  TempFolder folder_;
};

TEST_F(LibsvmFile, WhatIsNotWrittenIsZeroAndLabelsAreClassesInOrder) {
  const auto dataset = load("+1 1:0.5 3:2 # the first\n\n-1 2:-1e1\r\n1\n");
  EXPECT_EQ(dataset->schema().describe(), "features 3, label of 2 classes");
  const Batch batch = read_all(*dataset);
  EXPECT_EQ(features(batch), (std::vector<float>{0.5, 0, 2, 0, -10, 0, 0, 0, 0}));
  EXPECT_EQ(labels(batch), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(dataset->schema()[1].class_names, (std::vector<std::string>{"-1", "1"}));
}

TEST_F(LibsvmFile, LabelsThatAreNotWholeAreQuantities) {
  const auto dataset = load("0.5 1:1\n2 1:2\n");
  EXPECT_TRUE(dataset->schema()[1].classes.empty());
  EXPECT_THAT(read_all(*dataset).values<float>("label"), ::testing::ElementsAre(0.5f, 2.0f));
  EXPECT_TRUE(load("1 1:1\n2 1:2\n", {.regression = true})->schema()[1].classes.empty());
}

TEST_F(LibsvmFile, AnotherFileHasTheFeaturesAndClassesOfTheFirst) {
  const LibsvmOptions known{.features = 5, .class_names = {"-1", "1"}};
  const auto dataset = load("1 2:1\n", known);
  EXPECT_EQ(dataset->schema().describe(), "features 5, label of 2 classes");
  EXPECT_EQ(labels(read_all(*dataset)), (std::vector<std::int64_t>{1}));
  EXPECT_FAILS(load("2 2:1\n", known), Corrupt, "label 2", "none of the 2 classes");
  EXPECT_FAILS(load("1 6:1\n", known), Corrupt, "line 1", "index 6, expected 1 to 5");
}

TEST_F(LibsvmFile, DamagedLinesAreNamed) {
  EXPECT_FAILS(load(""), Corrupt, "samples.libsvm", "empty");
  EXPECT_FAILS(load("1\n"), Corrupt, "no line has a feature");
  EXPECT_FAILS(load("1 1:1\ncat 1:2\n"), Corrupt, "line 2", "expected a label", "'cat'");
  EXPECT_FAILS(load("1 1:1\n1 2\n"), Corrupt, "line 2", "expected index:value", "'2'");
  EXPECT_FAILS(load("1 1:\n"), Corrupt, "line 1", "'1:'");
  EXPECT_FAILS(load("1 x:1\n"), Corrupt, "line 1", "'x:1'");
  EXPECT_FAILS(load("1 1:inf\n"), Corrupt, "line 1", "'1:inf'");
  EXPECT_FAILS(load("1 2:1 2:3\n"), Corrupt, "line 1", "index 2 behind 2");
  EXPECT_FAILS(load("1 0:1\n"), Corrupt, "line 1", "index 0");
}

TEST_F(LibsvmFile, HugeClaimsAreRefused) {
  EXPECT_FAILS(load("1 9223372036854775808:1\n"), Corrupt, "line 1", "index 9223372036854775808");
  EXPECT_FAILS(load("1 99999999999999999999:1\n"), Corrupt, "line 1");
  EXPECT_FAILS(load("1 1:1 2:2 3:3\n", {.max_bytes = 16}), InvalidArgument, "more than 16 bytes");
  EXPECT_FAILS(load("1 1:1\n", {.features = -1}), InvalidArgument, "-1 features");
}

TEST_F(LibsvmFile, PackedShardsAreOneSet) {
  folder_.write("part-0.svm.gz", gzipped("1 1:1\n"));
  folder_.write("part-1.svm.gz", gzipped("0 2:1\n"));
  EXPECT_EQ(load_libsvm({(folder_ / "part-*").string()})->size(), 2u);
}

}  // namespace
}  // namespace trireme::data
