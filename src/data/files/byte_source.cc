#include "data/files/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;

// O_NONBLOCK: opening a named pipe must not wait for a writer; the caller rejects it.
FileDescriptor open_to_read(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace

ByteSource::ByteSource(std::filesystem::path path) : path_(std::move(path)), buffer_(kBufferBytes) {
  file_ = open_to_read(path_);
  if (!file_ && errno == ENOENT) open_packed();
  if (!file_) fail_errno("cannot open " + path_.string());
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail_errno("cannot inspect " + path_.string());
  if (!S_ISREG(status.st_mode)) fail<IoError>("{} is not a regular file: name a data file", path_.string());
  file_size_ = static_cast<std::uint64_t>(status.st_size);
  refill();
  unpacker_ = make_unpacker(input_);
}

void ByteSource::open_packed() {
  for (const char* suffix : {".gz", ".zst"}) {
    if (path_.extension() == suffix) return;
    std::filesystem::path packed = path_;
    packed += suffix;
    file_ = open_to_read(packed);
    if (file_ || errno != ENOENT) {
      path_ = std::move(packed);
      return;
    }
  }
  fail_errno(fmt::format("cannot open {0}, nor {0}.gz, nor {0}.zst", path_.string()));
}

ByteSource::~ByteSource() = default;

std::uint64_t ByteSource::most() const { return unpacker_ ? file_size_ * unpacker_->best_ratio() : file_size_; }

std::string ByteSource::at(std::uint64_t offset) const {
  return fmt::format("{}, byte {}{}", path_.string(), offset, unpacker_ ? " (unpacked)" : "");
}

std::size_t ByteSource::read(MutableBytes out) {
  const std::size_t got = unpacker_ ? read_packed(out) : read_plain(out);
  offset_ += got;
  return got;
}

bool ByteSource::refill() {
  ssize_t got = 0;
  do {
    got = ::read(file_.get(), buffer_.data(), buffer_.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) fail_errno("cannot read " + path_.string());
  input_ = Bytes(buffer_).first(static_cast<std::size_t>(got));
  file_read_ += static_cast<std::uint64_t>(got);
  return got > 0;
}

std::size_t ByteSource::read_plain(MutableBytes out) {
  std::size_t filled = 0;
  while (filled < out.size() && (!input_.empty() || refill())) {
    const std::size_t part = std::min(out.size() - filled, input_.size());
    std::copy_n(input_.begin(), part, out.begin() + static_cast<std::ptrdiff_t>(filled));
    input_ = input_.subspan(part);
    filled += part;
  }
  return filled;
}

std::size_t ByteSource::read_packed(MutableBytes out) {
  std::size_t filled = 0;
  while (filled < out.size() && !ended_) {
    if (input_.empty() && !refill()) {
      fail<Corrupt>("{}: the {} data is cut short: the file ends at byte {}, after {} unpacked bytes; get it again",
                    path_.string(), unpacker_->format(), file_read_, offset_ + filled);
    }
    Unpacker::Progress progress;
    try {
      progress = unpacker_->unpack(input_, out.subspan(filled));
    } catch (const Corrupt& problem) {
      fail<Corrupt>("{}: damaged {} data near byte {} of the file, after {} unpacked bytes: {}; get it again",
                    path_.string(), unpacker_->format(), file_offset(), offset_ + filled, problem.what());
    }
    filled += progress.written;
    if (progress.ended) next_member();
  }
  return filled;
}

void ByteSource::next_member() {
  if (input_.empty() && !refill()) {
    ended_ = true;
  } else if (input_.front() == unpacker_->magic().front()) {
    unpacker_->restart();  // concatenated files unpack as one
  } else {
    fail<Corrupt>("{}: trailing bytes: the {} data ends at byte {} of the file, but {} more follow", path_.string(),
                  unpacker_->format(), file_offset(), file_size_ - file_offset());
  }
}

}  // namespace trireme::data
