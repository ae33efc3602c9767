#include "data/files/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/files/byte_source.h"

namespace trireme::data {
namespace {

FileDescriptor make_nameless_file() {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string name = (folder / "trireme-XXXXXX").string();  // where the file system has no O_TMPFILE
  file = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) fail_errno("cannot make a file in " + folder.string() + " to unpack data into");
  ::unlink(name.c_str());
  return file;
}

}  // namespace

RandomAccessFile::RandomAccessFile(std::filesystem::path path, std::uint64_t most_unpacked) {
  ByteSource source(std::move(path));
  path_ = source.path();
  packed_ = source.packed();
  file_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file_) fail_errno("cannot open " + path_.string());
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail_errno("cannot inspect " + path_.string());
  size_ = static_cast<std::uint64_t>(status.st_size);
  modified_ = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (packed_) keep([&](MutableBytes out) { return source.read(out); }, most_unpacked);
}

RandomAccessFile::RandomAccessFile(std::filesystem::path path, const Unpack& unpack, std::uint64_t most_unpacked)
    : path_(std::move(path)), packed_(true) {
  keep(unpack, most_unpacked);
}

void RandomAccessFile::keep(const Unpack& unpack, std::uint64_t most) {
  file_ = make_nameless_file();
  size_ = 0;
  std::vector<std::byte> buffer(kMiB);
  while (const std::size_t got = unpack(buffer)) {
    if ((size_ += got) > most) {
      fail<IoError>("{} takes more than {} bytes when it is unpacked: unpack it yourself", path_.string(), most);
    }
    for (Bytes left = Bytes(buffer).first(got); !left.empty();) {
      const ssize_t written = ::write(file_.get(), left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_errno(fmt::format("cannot unpack {} into the temporary folder", path_.string()));
      left = left.subspan(static_cast<std::size_t>(written));
    }
  }
}

void RandomAccessFile::read(std::uint64_t offset, MutableBytes out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot read " + at(offset));
    if (got == 0) {
      fail<Corrupt>("{}: the file ends here, {} bytes early: it had {} when it was opened; was it changed meanwhile?",
                    at(offset), out.size(), size_);
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::string RandomAccessFile::at(std::uint64_t offset) const {
  return fmt::format("{}, byte {}{}", path_.string(), offset, packed_ ? " (unpacked)" : "");
}

}  // namespace trireme::data
