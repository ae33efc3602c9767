#include "trireme/sources.h"

#include "arrays.h"
#include "base/error.h"
#include "images.h"
#include "records.h"
#include "support.h"

namespace trireme::data {
namespace {

class WebDatasetTar : public ::testing::Test {
 protected:
  DatasetPtr load(const std::string& tar, const WebDatasetOptions& options = {}) {
    return load_webdataset({folder_.write("set.tar", tar).string()}, options);
  }

  static std::string sample(const std::string& key, char label, float x) {
    return tar_file(key + ".cls", std::string(1, label)) +
           tar_file(key + ".npy", npy_file("<f4", "(2,)", std::vector<float>{x, x + 1}));
  }

  const std::string end_ = std::string(1024, '\0');
  TempFolder folder_;
};

TEST_F(WebDatasetTar, NeighboursWithTheSameKeyAreASample) {
  const auto dataset = load(sample("a/1", '2', 0.5) + sample("a/2", '0', 7) + end_, {.classes = 3});
  EXPECT_EQ(dataset->size(), 2u);
  EXPECT_EQ(dataset->schema().describe(), "label of 3 classes, npy 2");
  const Batch batch = read_all(*dataset);
  EXPECT_THAT(batch.values<std::int64_t>("label"), ::testing::ElementsAre(2, 0));
  EXPECT_THAT(batch.values<float>("npy"), ::testing::ElementsAre(0.5f, 1.5f, 7.0f, 8.0f));
}

TEST_F(WebDatasetTar, ImagesTextAndJson) {
  const auto dataset =
      load(tar_file("1.png", plain_png(2, 1, 2, 3)) + tar_file("1.txt", "hello") +
           tar_file("1.json", R"({"size": 2.5, "name": "x", "box": [1, 2]})") + tar_file("1.md", "ignored") + end_);
  EXPECT_EQ(dataset->schema().describe(), "box 2, image u8 3x2x2, size, txt u8 *");
  EXPECT_THAT(read_all(*dataset).values<float>("box"), ::testing::ElementsAre(1.0f, 2.0f));
}

TEST_F(WebDatasetTar, TruncatedWithinAFileIsCorrupt) {
  const std::string whole = sample("1", '2', 0.5) + sample("2", '0', 7);
  for (std::size_t file = 0; file < whole.size(); file += 1024) {  // a header and a block each
    for (const std::size_t kept : {1, 100, 511, 512}) {
      EXPECT_FAILS(read_all(*load(whole.substr(0, file + kept))), Corrupt, "set.tar, byte");
    }
  }
  EXPECT_FAILS(read_all(*load(whole.substr(0, 1024 + 512 + 100))), Corrupt, "set.tar, byte");
}

TEST_F(WebDatasetTar, DamagedHeadersAndClaims) {
  std::string damaged = sample("1", '2', 0.5) + sample("2", '0', 7) + end_;
  damaged[1024 + 3] ^= 1;
  EXPECT_FAILS(load(damaged), Corrupt, "set.tar, byte 1024");
  EXPECT_FAILS(load(tar_file("1.cls", "1", '0', 0777777777777) + end_), Corrupt, "set.tar, byte");
  EXPECT_FAILS(load(end_), Corrupt, "without samples");
  EXPECT_FAILS(load(""), Corrupt, "empty");
}

TEST_F(WebDatasetTar, SamplesThatDoNotFitTheFirstAreNamed) {
  EXPECT_FAILS(read_all(*load(sample("1", '2', 0.5) + tar_file("2.cls", "x") + end_)), Corrupt, "2.cls", "'x'");
  EXPECT_FAILS(read_all(*load(sample("1", '2', 0.5) + tar_file("2.cls", "1") + end_)), Corrupt, "has no 'npy'");
  EXPECT_FAILS(read_all(*load(sample("1", '2', 0.5) + end_, {.classes = 2})), Corrupt, "label 2, expected 0 to 1");
  EXPECT_FAILS(load(tar_file("1.md", "x") + end_, {}), Corrupt, "no file of a kind that is read");
}

}  // namespace
}  // namespace trireme::data
