#include <sys/resource.h>
#include <unistd.h>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/files/random_access_file.h"
#include "data/files/unpacker.h"
#include "support.h"

namespace trireme::data {
namespace {

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::string counting(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  return raw(values);
}

std::string llmc(std::int32_t magic, std::int32_t version, std::uint32_t count, const std::string& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(count);
  return raw(header) + tokens;
}

std::vector<std::int32_t> tokens_of(const Dataset& dataset, std::vector<std::uint64_t> indices) {
  Batch batch;
  dataset.read(indices, batch);
  const auto values = batch.values<std::int32_t>("tokens");
  return {values.begin(), values.end()};
}

class TokenFiles : public ::testing::Test {
 protected:
  DatasetPtr load(const std::string& content, const TokenOptions& options = {.length = 3}) {
    return load_tokens({folder_.write("tokens.bin", content).string()}, options);
  }
  std::string path() const { return (folder_ / "tokens.bin").string(); }

  TempFolder folder_;
};

TEST_F(TokenFiles, WindowsOfABareFile) {
  const auto dataset = load(counting<std::uint16_t>(10));
  EXPECT_EQ(dataset->size(), 3u);
  EXPECT_EQ(dataset->schema()[0].name, "tokens");
  EXPECT_EQ(dataset->schema()[0].shape, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(dataset->schema()[0].limit(0), 64) << "the largest is 9: rounded up";
  EXPECT_EQ(tokens_of(*dataset, {0, 1, 2}), (std::vector<std::int32_t>{0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9}));
  EXPECT_EQ(tokens_of(*dataset, {2, 0, 2}), (std::vector<std::int32_t>{6, 7, 8, 9, 0, 1, 2, 3, 6, 7, 8, 9}));
}

TEST_F(TokenFiles, StrideLeavesWindowsThatOverlap) {
  const auto dataset = load(counting<std::uint16_t>(10), {.length = 3, .stride = 1, .vocabulary = 10});
  EXPECT_EQ(dataset->size(), 7u);
  EXPECT_EQ(tokens_of(*dataset, {5, 6}), (std::vector<std::int32_t>{5, 6, 7, 8, 6, 7, 8, 9}));
}

TEST_F(TokenFiles, LargeReadsEqualSmallOnes) {
  const auto dataset = load(counting<std::uint16_t>(60000), {.length = 7, .vocabulary = 65536});
  const std::vector<std::int32_t> all = tokens_of(*dataset, first_indices(dataset->size()));
  for (std::uint64_t i = 0; i < dataset->size(); i += 97) {
    const std::vector<std::int32_t> one = tokens_of(*dataset, {i});
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(8 * i))) << i;
  }
}

TEST_F(TokenFiles, LlmcHeaders) {
  const auto gpt2 = load(llmc(20240520, 1, 9, counting<std::uint16_t>(9)));
  EXPECT_EQ(gpt2->schema()[0].limit(0), 50257);
  EXPECT_EQ(tokens_of(*gpt2, {1}), (std::vector<std::int32_t>{3, 4, 5, 6}));
  const auto llama = load(llmc(20240801, 7, 4, raw<std::uint32_t>({0, 1, 2, 128000})));
  EXPECT_EQ(llama->schema()[0].limit(0), 128256);
  EXPECT_EQ(tokens_of(*llama, {0}), (std::vector<std::int32_t>{0, 1, 2, 128000}));
}

TEST_F(TokenFiles, ShardsInOrderOfNamesPlainAndPacked) {
  folder_.write("train-1.bin", gzipped(raw<std::uint16_t>({10, 11, 12, 13})));
  folder_.write("train-0.bin", raw<std::uint16_t>({0, 1, 2, 3, 4}));
  folder_.write("train-2.bin", raw<std::uint16_t>({20}));  // too short for a window
  folder_.write("train-3.bin", raw<std::uint16_t>({30, 31, 32, 33, 34, 35, 36}));
  const auto dataset = load_tokens({(folder_ / "train-*").string()}, {.length = 3});
  EXPECT_EQ(dataset->size(), 4u);
  EXPECT_EQ(tokens_of(*dataset, {0, 1, 2, 3}),
            (std::vector<std::int32_t>{0, 1, 2, 3, 10, 11, 12, 13, 30, 31, 32, 33, 33, 34, 35, 36}));
  EXPECT_FAILS(load_tokens({(folder_ / "test-*").string()}), InvalidArgument, "no file matches", "test-*");
}

TEST_F(TokenFiles, VocabularyFromTheFileBesideIt) {
  folder_.write("tokens.json", R"({"vocabulary": 5000, "tokens": 10, "bytes": 42, "tokenizer": "t.json"})");
  EXPECT_EQ(load(counting<std::uint16_t>(10))->schema()[0].limit(0), 5000);
  EXPECT_EQ(token_info(path())->bytes, 42u);
  folder_.write("tokens.json", R"({"vocabulary": "many"})");
  EXPECT_FAILS(load(counting<std::uint16_t>(10)), Corrupt, (folder_ / "tokens.json").string());
}

TEST_F(TokenFiles, TokenBeyondTheVocabularyHasFileAndOffset) {
  const auto dataset = load(counting<std::uint16_t>(10), {.length = 3, .vocabulary = 8});
  EXPECT_EQ(tokens_of(*dataset, {1}).back(), 6);
  Batch batch;
  EXPECT_FAILS(dataset->read(std::vector<std::uint64_t>{0, 2}, batch), Corrupt, path() + ", byte 16", "token 8",
               "0 to 7");
}

TEST_F(TokenFiles, TokenBeyondSignedNumbers) {
  const auto dataset = load(llmc(20240801, 7, 4, raw<std::uint32_t>({0, 1, 2, 0x80000000u})));
  Batch batch;
  EXPECT_FAILS(dataset->read(std::vector<std::uint64_t>{0}, batch), Corrupt, "byte 1036", "token 2147483648");
}

TEST_F(TokenFiles, EmptyTruncatedAndShort) {
  EXPECT_FAILS(load(""), Corrupt, path() + ", byte 0", "empty");
  EXPECT_FAILS(load("abc"), Corrupt, path() + ", byte 2", "within a token");
  EXPECT_FAILS(load(counting<std::uint16_t>(3)), InvalidArgument, path(), "3 tokens", "too few");
  EXPECT_FAILS(load(llmc(20240520, 1, 9, counting<std::uint16_t>(8))), Corrupt, path() + ", byte 8",
               "expected 9 tokens", "truncated");
  EXPECT_FAILS(load(llmc(20240520, 1, 7, counting<std::uint16_t>(8))), Corrupt, "something follows");
  EXPECT_FAILS(load(llmc(20240520, 3, 8, counting<std::uint16_t>(8))), Corrupt, "byte 4", "version 3");
  EXPECT_FAILS(load(llmc(20240520, 1, 0xffffffff, counting<std::uint16_t>(8))), Corrupt, "expected 4294967295 tokens");
}

TEST_F(TokenFiles, BadOptions) {
  EXPECT_FAILS(load("abcd", {.length = 0}), InvalidArgument, "windows of 0");
  EXPECT_FAILS(load("abcd", {.length = std::uint64_t{1} << 63}), InvalidArgument, "length from 1");
  EXPECT_FAILS(load("abcd", {.length = 1, .vocabulary = -1}), InvalidArgument, "vocabulary of -1");
  EXPECT_FAILS(load("abcd", {.length = 1, .width = 3}), InvalidArgument, "3 bytes");
}

TEST_F(TokenFiles, FileThatShrinksIsAnErrorNotASignal) {
  const auto dataset = load(counting<std::uint16_t>(10));
  ASSERT_EQ(::truncate(path().c_str(), 6), 0);
  Batch batch;
  EXPECT_FAILS(dataset->read(std::vector<std::uint64_t>{2}, batch), Corrupt, path(), "changed meanwhile");
}

TEST_F(TokenFiles, TextIsBytes) {
  const auto dataset = load_text({folder_
                                      .write("a.txt",
                                             "abc\xff"
                                             "z")
                                      .string()},
                                 {.length = 2});
  EXPECT_EQ(dataset->schema()[0].limit(0), 256);
  EXPECT_EQ(tokens_of(*dataset, {0, 1}), (std::vector<std::int32_t>{'a', 'b', 'c', 'c', 255, 'z'}));
}

TEST_F(TokenFiles, LargeFileTakesNoMemory) {
  const std::string file = path();
  folder_.write("tokens.bin", "");
  std::filesystem::resize_file(file, std::uint64_t{8} << 30);  // a hole: zeros that are nowhere
  const auto dataset = load_tokens({file}, {.length = 1023, .vocabulary = 10});
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  Batch batch;
  for (std::uint64_t i = 0; i < dataset->size(); i += dataset->size() / 1000) {
    dataset->read(std::vector<std::uint64_t>{i}, batch);
  }
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 * 1024) << "KiB";
}

TEST(RandomAccess, UnpacksOnceAndReadsAnywhere) {
  const TempFolder folder;
  const std::string content = counting<std::uint16_t>(50000);
  const RandomAccessFile file(folder.write("x", gzipped(content)));
  EXPECT_TRUE(file.packed());
  ASSERT_EQ(file.size(), content.size());
  std::string some(1000, '\0');
  file.read(70000, std::as_writable_bytes(std::span(some)));
  EXPECT_EQ(some, content.substr(70000, 1000));
  EXPECT_FAILS(file.read(content.size() - 10, std::as_writable_bytes(std::span(some))), Corrupt, "(unpacked)");
  EXPECT_FAILS(RandomAccessFile(folder / "x", 1000), IoError, "more than 1000 bytes");
}

/// "hello\n" as one frame of `zstd -19`, with its checksum.
const std::string kZstdFrame("\x28\xb5\x2f\xfd\x04\x68\x31\x00\x00hello\n\x53\x88\xbd\x91", 19);

std::string unpacked(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(Zstd, UnpacksFramesOrSaysWhatToInstall) {
  const TempFolder folder;
  const auto path = folder.write("x.zst", kZstdFrame + kZstdFrame);
  if (!has_zstd()) {
    EXPECT_FAILS(unpacked(path), InvalidArgument, "libzstd-dev");
    return;
  }
  EXPECT_EQ(unpacked(path), "hello\nhello\n");
  EXPECT_EQ(unpacked(folder / "x"), "hello\nhello\n") << "found by its plain name";
  for (std::size_t length = 4; length < kZstdFrame.size(); ++length) {
    EXPECT_FAILS(unpacked(folder.write("cut", kZstdFrame.substr(0, length))), Corrupt, "zstd data is cut short",
                 "ends at byte " + std::to_string(length));
  }
  std::string damaged = kZstdFrame;
  damaged[10] ^= 1;
  EXPECT_FAILS(unpacked(folder.write("bad", damaged)), Corrupt, "damaged zstd data near byte", "checksum");
  EXPECT_FAILS(unpacked(folder.write("more", kZstdFrame + "x")), Corrupt, "trailing bytes");
}

}  // namespace
}  // namespace trireme::data
