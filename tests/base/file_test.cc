#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include <gmock/gmock.h>

#include "base/error.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A folder of its own for each test, removed at its end.
class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme-file-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_errno("mkdtemp");
    folder_ = name;
  }
  ~FileTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
};

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) != -1; }

TEST_F(FileTest, DescriptorClosesItself) {
  int raw = -1;
  {
    const FileDescriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file);
    raw = file.get();
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
  EXPECT_FALSE(FileDescriptor());
}

TEST_F(FileTest, DescriptorMovesItsOwnership) {
  FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  FileDescriptor second(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int kept = first.get();
  const int replaced = second.get();
  second = std::move(first);
  EXPECT_EQ(second.get(), kept);
  EXPECT_FALSE(is_open(replaced));
  const int released = second.release();
  EXPECT_FALSE(second);
  EXPECT_TRUE(is_open(released));
  ::close(released);
}

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string content("a\0b\nc", 5);
  write_file_atomically(folder_ / "file", as_bytes(content));
  EXPECT_EQ(read_file(folder_ / "file"), content);
  write_file_atomically(folder_ / "file", Bytes{});
  EXPECT_EQ(read_file(folder_ / "file"), "");
}

TEST_F(FileTest, MissingFileIsNamed) {
  EXPECT_THAT([&] { read_file(folder_ / "absent"); }, ThrowsMessage<IoError>(HasSubstr("absent")));
  EXPECT_THAT([&] { read_file(folder_); }, ThrowsMessage<IoError>(HasSubstr("cannot read"))) << "opened, not readable";
  EXPECT_THAT([&] { write_file_atomically(folder_ / "no" / "where", as_bytes("x")); },
              ThrowsMessage<IoError>(HasSubstr("where")));
}

TEST_F(FileTest, OldFileStaysUntilTheNewOneIsComplete) {
  const auto path = folder_ / "file";
  write_file_atomically(path, as_bytes("old"));
  write_file_atomically(path, [&](const auto& sink) {
    sink(as_bytes("new "));
    EXPECT_EQ(read_file(path), "old");
    sink(as_bytes("and long"));
    EXPECT_EQ(read_file(path), "old");
  });
  EXPECT_EQ(read_file(path), "new and long");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const auto path = folder_ / "file";
  write_file_atomically(path, as_bytes("old"));
  EXPECT_THROW(write_file_atomically(path,
                                     [&](const auto& sink) {
                                       sink(as_bytes("half of the n"));
                                       fail<IoError>("the disk is full");
                                     }),
               IoError);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, LargeContentInManyPieces) {
  const std::string piece(1 << 16, 'x');
  write_file_atomically(folder_ / "file", [&](const auto& sink) {
    for (int i = 0; i < 40; ++i) sink(as_bytes(piece));
  });
  EXPECT_EQ(std::filesystem::file_size(folder_ / "file"), 40u << 16);
}

}  // namespace
}  // namespace trireme
