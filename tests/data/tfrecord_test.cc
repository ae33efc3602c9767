#include <fcntl.h>
#include <sys/stat.h>

#include "trireme/sources.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "records.h"
#include "support.h"

namespace trireme::data {
namespace {

std::string sample(char number, std::size_t text = 2) {
  return record(bytes_feature("image", std::string(4, number)) + float_feature("x", {1.5f, float(number)}) +
                int_feature("label", {number}) + int_feature("words", std::vector<char>(text, number)));
}

class TfRecordTest : public ::testing::Test {
 protected:
  DatasetPtr load(const std::string& content, const TfRecordOptions& options = {}) {
    return load_tfrecord({folder_.write("x.tfrecord", content).string()}, options);
  }
  std::string path() const { return (folder_ / "x.tfrecord").string(); }
  std::string index() const { return path() + ".index"; }

  TempFolder folder_;
};

TEST_F(TfRecordTest, SchemaIsFoundAndSamplesRead) {
  const auto dataset = load(sample(1) + sample(2, 3) + sample(3, 0), {.classes = 10});
  ASSERT_EQ(dataset->size(), 3u);
  const Schema& schema = dataset->schema();
  ASSERT_EQ(schema.size(), 4u);
  EXPECT_EQ(schema[0].name, "image");
  EXPECT_EQ(schema[0].dtype, DType::kU8);
  EXPECT_EQ(schema[0].shape, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(schema[1].name, "label");
  EXPECT_EQ(schema[1].role, Role::kTarget);
  EXPECT_TRUE(schema[1].shape.empty());
  EXPECT_TRUE(schema[2].varies()) << "words";
  EXPECT_EQ(schema[3].shape, (std::vector<std::int64_t>{2}));
  Batch batch;
  dataset->read(std::vector<std::uint64_t>{2, 1, 0, 1}, batch);
  EXPECT_THAT(batch.values<std::int64_t>("label"), ::testing::ElementsAre(3, 2, 1, 2));
  EXPECT_THAT(batch.lengths(2), ::testing::ElementsAre(0, 3, 2, 3));
  EXPECT_THAT(batch.values<std::int64_t>("words"), ::testing::ElementsAre(0, 0, 0, 2, 2, 2, 1, 1, 0, 2, 2, 2));
  EXPECT_THAT(batch.values<float>("x"), ::testing::ElementsAre(1.5f, 3, 1.5f, 2, 1.5f, 1, 1.5f, 2));
}

TEST_F(TfRecordTest, GivenFieldsReshapeBytes) {
  const TfRecordOptions options{.fields = {{.name = "image", .dtype = DType::kI16, .shape = {1, 2}}}};
  const auto dataset = load(sample(1) + sample(2), options);
  EXPECT_THAT(read_all(*dataset).values<std::int16_t>(0), ::testing::ElementsAre(0x101, 0x101, 0x202, 0x202));
  EXPECT_FAILS(read_all(*load(sample(1), {.fields = {{.name = "image", .shape = {2}}}})), Corrupt, "has 4 bytes");
}

TEST_F(TfRecordTest, ShardsPlainAndPacked) {
  folder_.write("t-0", sample(1) + sample(2));
  folder_.write("t-1", gzipped(sample(3)));
  const auto pattern = (folder_ / "t-*").string();
  const auto dataset = load_tfrecord({pattern});
  EXPECT_THAT(read_all(*dataset).values<std::int64_t>("label"), ::testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "t-0.index"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t-1.index"));
  EXPECT_EQ(load_tfrecord({pattern})->size(), 3u) << "indexes are not data";
}

TEST_F(TfRecordTest, IndexIsUsedAndMadeAnewWhenStale) {
  load(sample(1) + sample(2));
  struct stat before {};
  ASSERT_EQ(::stat(index().c_str(), &before), 0);
  EXPECT_EQ(load_tfrecord({path()})->size(), 2u);
  struct stat after {};
  ::stat(index().c_str(), &after);
  EXPECT_EQ(after.st_ino, before.st_ino) << "not written again";
  EXPECT_EQ(load(sample(1) + sample(2) + sample(3))->size(), 3u);
  ASSERT_EQ(load(sample(1) + sample(2))->size(), 2u);
  std::string damaged = read_file(index());
  damaged[80] ^= 1;
  folder_.write("x.tfrecord.index", damaged);
  EXPECT_EQ(load_tfrecord({path()})->size(), 2u) << "a damaged index is made anew";
  EXPECT_NE(read_file(index()), damaged);
  std::string claims = read_file(index());
  claims[32 + 16 + 7] = '\x7f';  // 2^63 offsets
  folder_.write("x.tfrecord.index", claims);
  EXPECT_EQ(load_tfrecord({path()})->size(), 2u);
}

TEST_F(TfRecordTest, TruncatedAtAnyByte) {
  const std::string whole = sample(1) + sample(2);
  const std::size_t first = sample(1).size();
  for (std::size_t length = 1; length < whole.size(); ++length) {
    if (length == first) continue;  // that is a whole record
    EXPECT_FAILS(load(whole.substr(0, length)), Corrupt,
                 path() + ", byte " + std::to_string(length < first ? 0 : first), "truncated");
  }
  EXPECT_FAILS(load(""), Corrupt, path() + ", byte 0", "empty");
}

TEST_F(TfRecordTest, CorruptAtAnyByte) {
  const std::string whole = sample(1) + sample(2);
  const std::size_t first = sample(1).size();
  for (std::size_t at = first; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 4;
    const std::string where = path() + ", byte " + std::to_string(first);
    EXPECT_FAILS(read_all(*load(damaged)), Corrupt, where, "checksum");
  }
}

TEST_F(TfRecordTest, ClaimsOf2To63Bytes) {
  std::string claims(12, '\0');
  claims[7] = '\x7f';
  const std::uint32_t crc = crc32c(as_bytes(std::string_view(claims).substr(0, 8)));
  const std::uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
  std::memcpy(claims.data() + 8, &masked, 4);
  EXPECT_FAILS(load(claims + std::string(20, '\0')), Corrupt, path() + ", byte 0", "only 16 are left");
}

TEST_F(TfRecordTest, RecordThatDoesNotFitTheSchema) {
  std::string many;
  for (int i = 0; i < 64; ++i) many += sample(1);
  const auto read = [&](const std::string& features) { read_all(*load(many + record(features))); };
  const std::string where = path() + ", byte " + std::to_string(many.size()) + ": record 64";
  EXPECT_FAILS(read(int_feature("label", {1})), Corrupt, where, "feature 'image' has 0 bytes");
  EXPECT_FAILS(read(bytes_feature("image", "12345")), Corrupt, where, "has 5 bytes", "image");
  EXPECT_FAILS(read(float_feature("image", {1})), Corrupt, where, "is float");
  EXPECT_FAILS(read("\x0a\x7f"), Corrupt, where, "longer than what holds it");
  EXPECT_FAILS(read_all(*load(sample(12), {.classes = 10})), Corrupt, path() + ", byte 0: record 0", "label 12",
               "0 to 9");
}

TEST_F(TfRecordTest, IndexThatIsNotOfThisFile) {
  load(sample(1) + sample(2));
  folder_.write("x.tfrecord", sample(1, 3) + sample(2, 1));  // the same size, other records
  const auto times = std::filesystem::last_write_time(path());
  std::filesystem::last_write_time(path(), times + std::chrono::seconds(5));
  EXPECT_EQ(read_all(*load_tfrecord({path()})).values<std::int64_t>("label")[1], 2);
}

}  // namespace
}  // namespace trireme::data
