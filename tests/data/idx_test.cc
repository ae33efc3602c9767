#include <sys/resource.h>

#include <initializer_list>

#include "trireme/sources.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

std::string header(std::initializer_list<std::uint32_t> sizes, char type = 0x08) {
  std::string text{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(size >> shift);
  }
  return text;
}

/// Three images of 2x2 whose pixels count from 0, labels 2, 0, 1.
const std::string kImages = header({3, 2, 2}) + std::string("\0\1\2\3\4\5\6\7\10\11\12\13", 12);
const std::string kLabels = header({3}) + std::string("\2\0\1", 3);

/// The most memory this process ever held, in bytes.
std::uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

class Idx : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> load(const std::string& images, const std::string& labels, IdxOptions options = {}) {
    return load_idx(folder_.write("images", images), folder_.write("labels", labels), options);
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TempFolder folder_;
};

TEST_F(Idx, ReadsPlainAndPackedAlike) {
  for (const bool packed : {false, true}) {
    const auto dataset = packed ? load(gzipped(kImages), gzipped(kLabels)) : load(kImages, kLabels);
    EXPECT_EQ(dataset->size(), 3u);
    EXPECT_EQ(classes(*dataset), 10);
    EXPECT_EQ(sample_shape(*dataset), (std::vector<std::int64_t>{1, 2, 2}));
    EXPECT_EQ(dataset->describe(), path("images") + ": 3 samples of image 1x2x2, label of 10 classes");
    Batch batch;
    dataset->read(std::vector<std::uint64_t>{2, 0, 2}, batch);
    EXPECT_EQ(labels(batch), (std::vector<std::int64_t>{1, 2, 1}));
    ASSERT_EQ(features(batch).size(), 12u);
    EXPECT_FLOAT_EQ(features(batch)[0], 8 / 255.0f);
    EXPECT_FLOAT_EQ(features(batch)[5], 1 / 255.0f);
    EXPECT_FLOAT_EQ(features(batch)[11], 11 / 255.0f);
  }
}

TEST_F(Idx, ReadsGluedGzipMembers) {
  const auto dataset = load(gzipped(kImages.substr(0, 9)) + gzipped(kImages.substr(9)), kLabels);
  EXPECT_EQ(dataset->size(), 3u);
}

TEST_F(Idx, Normalises) {
  const auto dataset = load(kImages, kLabels, {.normalization = {.mean = 0.5f, .std = 0.25f}});
  EXPECT_FLOAT_EQ(features(read_all(*dataset))[3], (3 / 255.0f - 0.5f) / 0.25f);
}

TEST_F(Idx, ReusesBuffersAndReadsNothing) {
  const auto dataset = load(kImages, kLabels);
  Batch batch = read_all(*dataset);
  const float* buffer = batch.values<float>(0).data();
  dataset->read({}, batch);
  EXPECT_EQ(batch.size(), 0u);
  dataset->read(first_indices(3), batch);
  EXPECT_EQ(batch.values<float>(0).data(), buffer);
}

TEST_F(Idx, RefusesAnIndexOutOfRangeAndLeavesTheBatch) {
  const auto dataset = load(kImages, kLabels);
  Batch batch = read_all(*dataset);
  EXPECT_FAILS(dataset->read(std::vector<std::uint64_t>{0, 3}, batch), InvalidArgument, "sample 3", "below 3");
  EXPECT_EQ(batch.size(), 3u);
}

TEST_F(Idx, MissingFile) {
  EXPECT_FAILS(load_idx(folder_.path() / "none", folder_.path() / "none"), IoError, path("none"), "No such file");
}

TEST_F(Idx, FolderInsteadOfFile) {
  EXPECT_FAILS(load_idx(folder_.path(), folder_.path()), IoError, folder_.path().string(), "not a regular file");
}

TEST_F(Idx, EmptyFile) { EXPECT_FAILS(load(kImages, ""), Corrupt, path("labels"), "byte 0", "empty"); }

TEST_F(Idx, EmptyGzip) { EXPECT_FAILS(load(gzipped(""), kLabels), Corrupt, path("images"), "byte 0", "truncated"); }

TEST_F(Idx, BadMagic) {
  EXPECT_FAILS(load("\x89PNG----", kLabels), Corrupt, path("images"), "byte 0", "expected magic 00 00 08 03",
               "found 89 50 4e 47");
}

TEST_F(Idx, WrongType) {
  EXPECT_FAILS(load(header({3, 2, 2}, 0x0D), kLabels), Corrupt, path("images"), "byte 2", "expected 0x08", "floats");
}

TEST_F(Idx, SwappedFiles) {
  EXPECT_FAILS(load(kLabels, kImages), Corrupt, path("labels"), "byte 3", "expected 1 for labels, found 3", "swapped");
}

TEST_F(Idx, OtherShapeThanDemanded) {
  EXPECT_FAILS(load(kImages, kLabels, {.shape = {1, 28, 28}}), Corrupt, path("images"), "byte 8",
               "expected images of 1x28x28, found 1x2x2");
}

TEST_F(Idx, TruncatedHeader) {
  for (std::size_t length = 1; length < 16; ++length) {
    EXPECT_FAILS(load(kImages.substr(0, length), kLabels), Corrupt, path("images"), "truncated", "found");
    EXPECT_FAILS(load(gzipped(kImages.substr(0, length)), kLabels), Corrupt, path("images"), "truncated", "(unpacked)");
  }
}

TEST_F(Idx, TruncatedValues) {
  EXPECT_FAILS(load(kImages.substr(0, 20), kLabels), Corrupt, path("images"), "byte 16", "truncated",
               "expected 12 bytes of images (3x2x2)", "at most 4");
  EXPECT_FAILS(load(gzipped(kImages.substr(0, 20)), kLabels), Corrupt, path("images"), "byte 20 (unpacked)",
               "truncated", "expected 12 bytes of images, found 4");
}

TEST_F(Idx, TruncatedGzipAtAnyByte) {
  const std::string packed = gzipped(kImages);
  for (std::size_t length = 2; length < packed.size(); ++length) {
    EXPECT_FAILS(load(packed.substr(0, length), kLabels), Corrupt, path("images"), "cut short",
                 "ends at byte " + std::to_string(length));
  }
}

TEST_F(Idx, DamagedGzip) {
  std::string packed = gzipped(kImages);
  packed[packed.size() - 8] ^= 1;  // the checksum
  EXPECT_FAILS(load(packed, kLabels), Corrupt, path("images"), "damaged gzip data near byte", "incorrect data check");
}

TEST_F(Idx, TrailingBytes) {
  EXPECT_FAILS(load(kImages + "x", kLabels), Corrupt, path("images"), "byte 28", "trailing");
  EXPECT_FAILS(load(gzipped(kImages + "x"), kLabels), Corrupt, path("images"), "byte 28 (unpacked)", "trailing");
  EXPECT_FAILS(load(gzipped(kImages) + "x", kLabels), Corrupt, path("images"), "trailing bytes", "1 more follow");
}

TEST_F(Idx, CountsDiffer) {
  EXPECT_FAILS(load(kImages, header({2}) + std::string("\0\1", 2)), Corrupt, path("labels"), "byte 4", "2 labels",
               path("images"), "3 images");
}

TEST_F(Idx, LabelTooLarge) {
  EXPECT_FAILS(load(kImages, header({3}) + std::string("\1\12\2", 3)), Corrupt, path("labels"), "byte 9", "label 10",
               "0 to 9");
}

TEST_F(Idx, ZeroSize) { EXPECT_FAILS(load(header({3, 0, 2}), kLabels), Corrupt, path("images"), "byte 8", "size 0"); }

TEST_F(Idx, BadOptions) {
  EXPECT_FAILS(load(kImages, kLabels, {.normalization = {.mean = 0, .std = 0}}), InvalidArgument, "deviation 0");
  EXPECT_FAILS(load(kImages, kLabels, {.classes = 257}), InvalidArgument, "1 to 256");
}

TEST_F(Idx, AnyFlippedBitLoadsOrIsAnError) {
  for (const std::string& whole : {kImages, gzipped(kImages)}) {
    for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      try {
        EXPECT_EQ(load(damaged, kLabels)->size(), 3u);
      } catch (const Corrupt& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(path("images")));
      }
    }
  }
}

TEST_F(Idx, AbsurdSizesAllocateNothing) {
  const std::uint64_t before = peak_memory();
  const std::string eight_gib = header({8, 32768, 32768});
  const std::string overflow = header({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF});
  const std::string two_gib = header({2, 32768, 32768});
  for (const bool packed : {false, true}) {
    const auto file = [&](const std::string& content) { return packed ? gzipped(content) : content; };
    EXPECT_FAILS(load(file(eight_gib), kLabels), Corrupt, path("images"), "byte 12", "more than the 4294967296 bytes");
    EXPECT_FAILS(load(file(overflow), kLabels), Corrupt, path("images"), "byte 8", "more than");
    EXPECT_FAILS(load(file(two_gib), kLabels), Corrupt, path("images"), "byte 16", "truncated");
  }
  EXPECT_LT(peak_memory() - before, std::uint64_t{32} << 20);
}

TEST_F(Idx, GzipBombStaysPacked) {
  std::string bomb = gzipped(kImages);  // glued members: making it must not take the memory that the test looks for
  const std::string mebibyte = gzipped(std::string(1 << 20, '\0'));
  for (int i = 0; i < 1024; ++i) bomb += mebibyte;
  const std::filesystem::path images = folder_.write("images", bomb);
  const std::filesystem::path labels = folder_.write("labels", kLabels);
  const std::uint64_t before = peak_memory();
  EXPECT_FAILS(load_idx(images, labels), Corrupt, path("images"), "byte 28 (unpacked)", "trailing");
  EXPECT_LT(peak_memory() - before, std::uint64_t{16} << 20);
}

TEST_F(Idx, GzipBombWithMatchingHeaderMeetsTheLimit) {
  const std::string bomb = gzipped(header({1, 4096, 4096}) + std::string(std::size_t{16} << 20, '\0'));
  EXPECT_FAILS(load(bomb, header({1}) + std::string(1, '\0'), {.max_bytes = 1 << 20}), Corrupt, path("images"),
               "more than the 1048576 bytes allowed");
}

}  // namespace
}  // namespace trireme::data
