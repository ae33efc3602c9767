#include "checkpoint/safetensors/safetensors.h"

#include <sys/stat.h>

#include <array>
#include <cstring>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temp_folder.h"

namespace trireme::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<std::string> names_of(std::span<const TensorView> tensors) {
  std::vector<std::string> names;
  for (const TensorView& tensor : tensors) names.push_back(tensor.name);
  return names;
}

TEST(WriteSafetensors, BytesAreThoseOfTheFormat) {
  const TempFolder folder;
  const std::vector<float> weight = {1.0f, -2.0f};
  const std::vector<TensorView> tensors = {{"w", DType::kF32, {1, 2}, bytes_of(weight)}};
  write_safetensors(folder / "m.safetensors", tensors, {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  ASSERT_EQ(header.size(), 87u);
  EXPECT_EQ(read_file(folder / "m.safetensors"),
            std::string("\x58\0\0\0\0\0\0\0", 8) + header + " " + std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
}

TEST(WriteSafetensors, RoundTripsEveryType) {
  const TempFolder folder;
  const std::vector<std::byte> raw(24, std::byte{7});
  std::vector<TensorView> tensors;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16,
                            DType::kI32, DType::kI64, DType::kBool}) {
    tensors.push_back({std::string(name_of(dtype)), dtype, {3}, Bytes(raw).first(3 * size_of(dtype))});
  }
  tensors.push_back({"scalar", DType::kF32, {}, Bytes(raw).first(4)});
  tensors.push_back({"empty", DType::kF32, {5, 0, 3}, {}});
  tensors.push_back({"also \"empty\"\n\xc3\xbc", DType::kI64, {0}, {}});
  const Metadata metadata = {{"step", "500"}, {"quote\"d", "two\nlines"}};
  write_safetensors(folder / "m.safetensors", tensors, metadata);

  const SafetensorsFile file(folder / "m.safetensors");
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorView& written : tensors) {
    const TensorView& read = file.at(written.name);
    EXPECT_EQ(read.dtype, written.dtype);
    EXPECT_EQ(read.shape, written.shape);
    EXPECT_TRUE(std::ranges::equal(read.data, written.data)) << written.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data.data()) % size_of(read.dtype), 0u) << "aligned for its type";
  }
}

TEST(WriteSafetensors, OrderGivenDoesNotMatter) {
  const TempFolder folder;
  const std::vector<std::byte> raw(8);
  const TensorView a{"a", DType::kU8, {1}, Bytes(raw).first(1)};
  const TensorView b{"b", DType::kF64, {1}, raw};
  const TensorView c{"c", DType::kF32, {1}, Bytes(raw).first(4)};
  write_safetensors(folder / "1", std::array{a, b, c});
  write_safetensors(folder / "2", std::array{c, b, a});
  EXPECT_EQ(read_file(folder / "1"), read_file(folder / "2"));
  EXPECT_THAT(names_of(SafetensorsFile(folder / "1").tensors()), ElementsAre("b", "c", "a"));
}

TEST(WriteSafetensors, WritesAFileWithoutTensors) {
  const TempFolder folder;
  write_safetensors(folder / "m.safetensors", {});
  EXPECT_EQ(read_file(folder / "m.safetensors").size(), 16u);
  const SafetensorsFile file(folder / "m.safetensors");
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_TRUE(file.metadata().empty());
}

TEST(WriteSafetensors, RefusesInvalidTensors) {
  const TempFolder folder;
  const auto path = folder / "m.safetensors";
  const std::vector<std::byte> raw(8);
  const TensorView sound{"w", DType::kF32, {2}, raw};
  const auto refused = [&](const std::vector<TensorView>& tensors, const Metadata& metadata = {}) {
    EXPECT_THROW(write_safetensors(path, tensors, metadata), InvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(path));
  };
  refused({sound, sound});
  refused({{"__metadata__", DType::kF32, {2}, raw}});
  refused({{"w", DType::kF32, {3}, raw}});
  refused({{"w", DType::kF32, {-2, -1}, raw}});
  refused({{"w", DType::kF32, {std::int64_t{1} << 62, 4}, {}}});
  refused({{"w", DType::kF32, std::vector<std::int64_t>(kMaxDimensions + 1, 1), Bytes(raw).first(4)}});
  refused({{"\xff", DType::kF32, {2}, raw}});
  refused({sound}, {{"key", "\xff"}});
}

TEST(SafetensorsFile, KeepsItsBytesWhenMovedOrReplacedOnDisk) {
  const TempFolder folder;
  const std::vector<float> before = {1, 2, 3};
  const std::vector<float> after = {4, 5, 6};
  write_safetensors(folder / "m", std::array{TensorView{"w", DType::kF32, {3}, bytes_of(before)}});
  SafetensorsFile first(folder / "m");
  const SafetensorsFile moved = std::move(first);
  write_safetensors(folder / "m", std::array{TensorView{"w", DType::kF32, {3}, bytes_of(after)}});
  EXPECT_TRUE(std::ranges::equal(moved.at("w").data, bytes_of(before)));
  EXPECT_TRUE(std::ranges::equal(SafetensorsFile(folder / "m").at("w").data, bytes_of(after)));
}

TEST(SafetensorsFile, AMissingTensorIsNamedWithACloseOne) {
  const TempFolder folder;
  const std::vector<float> one = {1};
  write_safetensors(folder / "m", std::array{TensorView{"fc1.weight", DType::kF32, {1}, bytes_of(one)}});
  const SafetensorsFile file(folder / "m");
  EXPECT_EQ(file.find("fc1.weigth"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
  try {
    file.at("fc1.weigth");
    FAIL() << "found it";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("fc1.weigth"), HasSubstr("did you mean 'fc1.weight'")));
  }
}

TEST(SafetensorsFile, ThrowsIoErrorForFoldersAndPipes) {
  const TempFolder folder;
  EXPECT_THROW(SafetensorsFile(folder / "missing"), IoError);
  EXPECT_THROW(SafetensorsFile(folder.path()), IoError);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsFile(folder / "pipe"), IoError);
}

TEST(SafetensorsFile, AnEmptyOrCutFileIsCorrupt) {
  const TempFolder folder;
  const std::vector<float> values = {1, 2, 3};
  write_safetensors(folder / "m", std::array{TensorView{"w", DType::kF32, {3}, bytes_of(values)}});
  const std::string sound = read_file(folder / "m");
  for (std::size_t size = 0; size < sound.size(); ++size) {
    std::ofstream(folder / "cut", std::ios::binary) << sound.substr(0, size);
    try {
      SafetensorsFile file(folder / "cut");
      FAIL() << "took a file cut to " << size << " bytes";
    } catch (const Corrupt& error) {
      EXPECT_THAT(error.what(), HasSubstr((folder / "cut").string()));
    }
  }
}

}  // namespace
}  // namespace trireme::checkpoint
