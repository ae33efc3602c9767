#include "images.h"

#include "trireme/sources.h"

#include "base/error.h"
#include "data/images/image.h"
#include "support.h"

namespace trireme::data {
namespace {

using Pixels = std::vector<std::uint8_t>;

Image decode(const std::string& bytes) { return decode_image(as_bytes(bytes), "picture"); }

TEST(Png, PixelsAreRead) {
  const Image image = decode(png_file(1, 2, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(image.height, 1u);
  EXPECT_EQ(image.width, 2u);
  EXPECT_EQ(image.pixels, (Pixels{1, 2, 3, 4, 5, 6}));
  Pixels planes(6);
  resize_to_planes(image, 1, 2, planes.data());
  EXPECT_EQ(planes, (Pixels{1, 4, 2, 5, 3, 6}));
}

TEST(Png, TruncatedAnywhereIsCorrupt) {
  const std::string whole = png_file(2, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const std::size_t end = whole.find("IEND") - 4;  // what follows holds no pixels
  for (std::size_t size = 0; size < end; ++size) EXPECT_FAILS(decode(whole.substr(0, size)), Corrupt, "picture");
}

TEST(Png, HugeClaimsAreRefusedUnread) {
  EXPECT_FAILS(decode(png_file(1, 1 << 20, Pixels(3 << 20), 0x7fffffff)), Corrupt, "picture");
  EXPECT_FAILS(decode(png_file(1, 1, {1, 2, 3}, 1000)), Corrupt, "picture");
}

TEST(Images, SomethingElseIsRefused) {
  EXPECT_FAILS(decode(""), Corrupt, "picture");
  EXPECT_FAILS(decode("no image at all"), Corrupt, "picture");
  EXPECT_FAILS(decode("\xff\xd8\xff\xe0 and no more"), Corrupt, "picture");
}

class ImageFolders : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    folder_.write(name, bytes);
  }
  TempFolder folder_;
};

TEST_F(ImageFolders, SubFoldersAreClasses) {
  write("dog/b.png", plain_png(2, 9, 8, 7));
  write("cat/a.png", plain_png(2, 1, 2, 3));
  write("cat/notes.md", "not an image");
  const auto dataset = load_image_folder(folder_.path());
  EXPECT_EQ(dataset->size(), 2u);
  EXPECT_EQ(dataset->schema().describe(), "image u8 3x2x2, label of 2 classes");
  EXPECT_EQ(dataset->schema()[1].class_names, (std::vector<std::string>{"cat", "dog"}));
  const Batch batch = read_all(*dataset);
  EXPECT_THAT(batch.values<std::uint8_t>(std::size_t{0}).first(12),
              ::testing::ElementsAre(1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
  EXPECT_EQ(labels(batch), (std::vector<std::int64_t>{0, 1}));
}

TEST_F(ImageFolders, SizesDifferUnlessOneIsGiven) {
  write("cat/a.png", plain_png(2, 1, 2, 3));
  write("cat/b.png", plain_png(4, 1, 2, 3));
  EXPECT_FAILS(read_all(*load_image_folder(folder_.path())), Corrupt, "b.png", "4x4 pixels", "2x2");
  EXPECT_EQ(read_all(*load_image_folder(folder_.path(), {.height = 3, .width = 3})).size(), 2u);
  EXPECT_FAILS(load_image_folder(folder_.path(), {.height = 3}), InvalidArgument, "give both");
}

TEST_F(ImageFolders, DamageAndEmptinessAreNamed) {
  EXPECT_FAILS(load_image_folder(folder_.path()), InvalidArgument, "no sub-folders");
  std::filesystem::create_directories(folder_ / "cat");
  EXPECT_FAILS(load_image_folder(folder_.path()), InvalidArgument, "no PNG or JPEG images");
  EXPECT_FAILS(load_image_folder(folder_ / "absent"), IoError, "absent");
  write("cat/a.png", plain_png(2, 1, 2, 3));
  write("cat/b.png", plain_png(2, 1, 2, 3).substr(0, 40));
  EXPECT_FAILS(read_all(*load_image_folder(folder_.path())), Corrupt, "b.png");
}

// ---- CIFAR's own format.

std::string cifar_image(char label, char pixel) { return label + std::string(3072, pixel); }

class CifarFolder : public ImageFolders {
 protected:
  void SetUp() override {
    folder_.write("data_batch_1.bin", cifar_image(3, 10) + cifar_image(0, 20));
    folder_.write("data_batch_2.bin", cifar_image(9, 30));
    folder_.write("test_batch.bin", cifar_image(1, 40));
  }
};

TEST_F(CifarFolder, ImagesAndLabelsOfAllFiles) {
  const Split split = load_cifar_binary(folder_.path());
  EXPECT_EQ(split.train->size(), 3u);
  EXPECT_EQ(split.test->size(), 1u);
  EXPECT_EQ(split.train->schema().describe(), "image u8 3x32x32, label of 10 classes");
  const Batch batch = read_all(*split.train);
  EXPECT_EQ(labels(batch), (std::vector<std::int64_t>{3, 0, 9}));
  EXPECT_EQ(batch.values<std::uint8_t>(std::size_t{0})[3072], 20);
  folder_.write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(load_cifar_binary(folder_.path()).train->schema()[1].class_names.back(), "j");
  folder_.write("batches.meta.txt", "a\nb\n");
  EXPECT_FAILS(load_cifar_binary(folder_.path()), Corrupt, "batches.meta.txt", "2 names of classes, expected 10");
}

TEST_F(CifarFolder, DamageHasFileAndOffset) {
  folder_.write("data_batch_2.bin", cifar_image(9, 30).substr(0, 3000));
  EXPECT_FAILS(load_cifar_binary(folder_.path()), Corrupt, "data_batch_2.bin, byte 0", "multiple of 3073");
  folder_.write("data_batch_2.bin", "");
  EXPECT_FAILS(load_cifar_binary(folder_.path()), Corrupt, "data_batch_2.bin, byte 0");
  folder_.write("data_batch_2.bin", cifar_image(9, 30) + cifar_image(10, 30));
  EXPECT_FAILS(read_all(*load_cifar_binary(folder_.path()).train), Corrupt, "data_batch_2.bin, byte 3073", "label 10");
  std::filesystem::remove(folder_ / "test_batch.bin");
  EXPECT_FAILS(load_cifar_binary(folder_.path()), IoError, "test_batch.bin");
}

TEST_F(CifarFolder, AHundredClasses) {
  std::filesystem::remove(folder_ / "data_batch_1.bin");
  folder_.write("train.bin", std::string(1, 7) + cifar_image(99, 1));
  folder_.write("test.bin", std::string(1, 7) + cifar_image(5, 1));
  const Split split = load_cifar_binary(folder_.path());
  EXPECT_EQ(classes(*split.train), 100);
  EXPECT_EQ(labels(read_all(*split.train)), (std::vector<std::int64_t>{99}));
}

}  // namespace
}  // namespace trireme::data
