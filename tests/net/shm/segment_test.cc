#include "net/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/net/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

FileDescriptor copy_of(const Segment& segment) {
  return FileDescriptor(::fcntl(segment.descriptor(), F_DUPFD_CLOEXEC, 0));
}

TEST(Segment, MappingsShareTheirMemory) {
  const auto ours = Segment::create("test", 100);
  ASSERT_EQ(ours->bytes().size(), 4096u);
  EXPECT_EQ(ours->bytes()[0], std::byte{0});
  const auto theirs = Segment::map(copy_of(*ours), 4096, Segment::Access::kRead);
  ours->bytes()[17] = std::byte{42};
  EXPECT_EQ(theirs->bytes()[17], std::byte{42});
}

TEST(Segment, ItsSizeCannotChange) {
  const auto segment = Segment::create("test", 8192);
  EXPECT_NE(::ftruncate(segment->descriptor(), 0), 0);
  EXPECT_NE(::ftruncate(segment->descriptor(), 1 << 20), 0);
}

TEST(Segment, RefusesAnotherSizeThanAnnounced) {
  const auto segment = Segment::create("test", 4096);
  EXPECT_FAILS(Segment::map(copy_of(*segment), 8192, Segment::Access::kRead), InvalidArgument, "4096", "8192");
  EXPECT_FAILS(Segment::map(copy_of(*segment), 0, Segment::Access::kRead), InvalidArgument, "announced 0");
}

TEST(Segment, RefusesMemoryThatIsNotSealed) {
  FileDescriptor loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 4096), 0);
  EXPECT_FAILS(Segment::map(std::move(loose), 4096, Segment::Access::kRead), InvalidArgument, "not sealed");
  FileDescriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_FAILS(Segment::map(std::move(file), 4096, Segment::Access::kRead), InvalidArgument, "not sealed");
  EXPECT_FAILS(Segment::map(FileDescriptor(), 4096, Segment::Access::kRead), InvalidArgument, "not sealed");
}

TEST(Segment, AfterSealingOnlyTheOwnerWrites) {
  const auto segment = Segment::create("test", 4096);
  segment->seal_writes();
  segment->bytes()[0] = std::byte{1};
  EXPECT_FAILS(Segment::map(copy_of(*segment), 4096, Segment::Access::kReadWrite), IoError, "cannot map");
  EXPECT_EQ(Segment::map(copy_of(*segment), 4096, Segment::Access::kRead)->bytes()[0], std::byte{1});
  EXPECT_NE(::write(segment->descriptor(), "x", 1), 1);
}

TEST(Segment, LeavesNoDescriptor) {
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 50; ++i) Segment::map(copy_of(*Segment::create("test", 4096)), 4096, Segment::Access::kRead);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace trireme::net
