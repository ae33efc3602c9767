#include "arrays.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "trireme/sources.h"
#include "trireme/transforms.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

using Floats = std::vector<float>;

class ArrayFiles : public ::testing::Test {
 protected:
  DatasetPtr npy(const std::string& bytes) { return load_npy({folder_.write("x.npy", bytes).string()}); }
  DatasetPtr npz(const std::string& bytes) { return load_npz(folder_.write("set.npz", bytes)); }

  const std::string x_ = npy_file("<f4", "(3, 2)", Floats{1, 2, 3, 4, 5, 6});
  const std::string y_ = npy_file("<i8", "(3,)", std::vector<std::int64_t>{0, 2, 1});
  TempFolder folder_;
};

TEST_F(ArrayFiles, EachFileIsAFieldWithARowPerSample) {
  const std::vector<std::string> files = {folder_.write("x.npy", x_).string(), folder_.write("y.npy", y_).string()};
  const auto dataset = load_npy(files);
  EXPECT_EQ(dataset->schema().describe(), "x 2, y i64");
  EXPECT_EQ(dataset->schema()[1].role, Role::kTarget);
  const Batch batch = read_all(*dataset);
  EXPECT_EQ(features(batch), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(labels(batch), (std::vector<std::int64_t>{0, 2, 1}));
}

TEST_F(ArrayFiles, AnyOrderAndPackedFilesGiveTheSame) {
  const auto dataset = load_npy({folder_.write("x.npy.gz", gzipped(x_)).string()});
  Batch batch;
  const std::vector<std::uint64_t> some = {2, 0, 0};
  dataset->read(some, batch);
  EXPECT_EQ(features(batch), (Floats{5, 6, 1, 2, 1, 2}));
}

/// Bytes that this process has read from files, and from all else.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string word;
  std::uint64_t bytes = 0;
  io >> word >> bytes;  // rchar: 123
  return bytes;
}

TEST_F(ArrayFiles, ColumnsAreReadWithoutTheOthers) {
  Floats values(40 * 1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto whole = npy(npy_file("<f4", "(40, 10, 100)", values));
  std::vector<std::uint64_t> some(250);
  std::iota(some.begin(), some.end(), 500);
  const auto dataset = columns(whole, "x", some);
  EXPECT_EQ(dataset->schema().describe(), "x 250");
  Batch batch;
  std::vector<std::uint64_t> rows(40);
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::reverse(rows);
  const std::uint64_t before = bytes_read();
  dataset->read(rows, batch);
  EXPECT_LT(bytes_read() - before, values.size() * sizeof(float) / 3) << "a quarter of the file, and this counter";
  for (std::size_t row = 0; row < 40; ++row) {
    EXPECT_EQ(features(batch)[row * 250], static_cast<float>((39 - row) * 1000 + 500));
    EXPECT_EQ(features(batch)[row * 250 + 249], static_cast<float>((39 - row) * 1000 + 749));
  }
  const auto fewer = columns(dataset, "x", {10, 11});
  EXPECT_EQ(features(read_all(*fewer))[1], 511);
  EXPECT_EQ(features(read_all(*columns(dataset, "x", {0, 249})))[1], 749) << "not neighbours";
}

TEST_F(ArrayFiles, NpzStoredAndDeflated) {
  for (const bool packed : {false, true}) {
    const auto dataset = npz(zip_file(
        {{"x.npy", x_}, {"y.npy", y_}, {"seed.npy", npy_file("<i8", "()", std::vector<std::int64_t>{7})}}, packed));
    EXPECT_EQ(dataset->schema().describe(), "x 2, y i64");
    EXPECT_EQ(features(read_all(*dataset)), (Floats{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(labels(read_all(*dataset)), (std::vector<std::int64_t>{0, 2, 1}));
  }
}

TEST_F(ArrayFiles, TruncatedAnywhereIsCorrupt) {
  for (std::size_t size = 0; size < x_.size(); ++size) {
    EXPECT_FAILS(npy(x_.substr(0, size)), Corrupt, "x.npy, byte 0");
  }
  const std::string zip = zip_file({{"x.npy", x_}}, true);
  for (std::size_t size = 0; size < zip.size(); ++size) EXPECT_FAILS(npz(zip.substr(0, size)), Corrupt, "set.npz");
}

TEST_F(ArrayFiles, DamageInAZipIsFound) {
  for (const bool packed : {false, true}) {
    std::string zip = zip_file({{"x.npy", x_}}, packed);
    zip[zip.find(".npy") + 20] ^= 0x40;
    EXPECT_FAILS(npz(zip), Corrupt, "set.npz, byte");
  }
}

TEST_F(ArrayFiles, WhatIsNotReadIsRefusedWithAWayOut) {
  EXPECT_FAILS(npy(npy_file(">f4", "(1,)", Floats{1})), Corrupt, "'>f4'", "astype");
  EXPECT_FAILS(npy(npy_file("<U3", "(1,)", Floats{1, 2, 3})), Corrupt, "'<U3'");
  EXPECT_FAILS(npy(npy_file("<f4", "(1,)", Floats{1}, true)), Corrupt, "Fortran's order", "ascontiguousarray");
  EXPECT_FAILS(npy(npy_file("<f4", "()", Floats{1})), InvalidArgument, "a single number");
  EXPECT_FAILS(npy("1,2,3\n1,2,3\n1,2,3\n"), Corrupt, "no .npy file");
}

TEST_F(ArrayFiles, HugeClaimsAreRefusedUnread) {
  EXPECT_FAILS(npy(npy_file("<f4", "(9223372036854775807,)", Floats{1})), Corrupt, "truncated");
  EXPECT_FAILS(npy(npy_file("<f4", "(9223372036854775808,)", Floats{1})), Corrupt, "of the shape");
  EXPECT_FAILS(npy(npy_file("<f4", "(4294967296, 4294967296, 4294967296)", Floats{1})), Corrupt, "truncated");
  EXPECT_FAILS(npy(npy_file("<f4", "(1, 1", Floats{1})), Corrupt, "without a shape");
}

TEST_F(ArrayFiles, DifferentNumbersOfRowsAreRefused) {
  const std::vector<std::string> files = {
      folder_.write("x.npy", x_).string(),
      folder_.write("y.npy", npy_file("<i8", "(2,)", std::vector<std::int64_t>{0, 1})).string()};
  EXPECT_FAILS(load_npy(files), InvalidArgument, "'x' has 3 rows", "'y' has 2");
  EXPECT_FAILS(npz(zip_file({{"a.txt", "hello"}}, false)), Corrupt, "without arrays");
}

}  // namespace
}  // namespace trireme::data
