#include "data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr std::uint64_t kBestDeflateRatio = 1032;  // zlib's technical notes: 1032:1 is the limit of the format
constexpr int kGzipOnly = 15 + 16;                 // inflateInit2: largest window, gzip wrapper
constexpr std::byte kGzipMagic[] = {std::byte{0x1f}, std::byte{0x8b}};

// O_NONBLOCK: opening a named pipe must not wait for a writer; the caller rejects it.
FileDescriptor open_to_read(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace

struct ByteSource::Inflater {
  z_stream stream{};

  Inflater() {
    if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
};

ByteSource::ByteSource(std::filesystem::path path) : path_(std::move(path)), buffer_(kBufferBytes) {
  file_ = open_to_read(path_);
  if (!file_ && errno == ENOENT && path_.extension() != ".gz") {
    std::filesystem::path packed = path_;
    packed += ".gz";
    file_ = open_to_read(packed);
    if (!file_ && errno == ENOENT) fail_errno(fmt::format("cannot open {0}, nor {0}.gz", path_.string()));
    path_ = std::move(packed);
  }
  if (!file_) fail_errno("cannot open " + path_.string());
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail_errno("cannot inspect " + path_.string());
  if (!S_ISREG(status.st_mode)) fail<IoError>("{} is not a regular file: name a data file", path_.string());
  file_size_ = static_cast<std::uint64_t>(status.st_size);
  refill();
  if (input_.size() >= 2 && std::ranges::equal(input_.first(2), kGzipMagic)) inflater_ = std::make_unique<Inflater>();
}

ByteSource::~ByteSource() = default;

std::uint64_t ByteSource::most() const { return inflater_ ? file_size_ * kBestDeflateRatio : file_size_; }

std::string ByteSource::at(std::uint64_t offset) const {
  return fmt::format("{}, byte {}{}", path_.string(), offset, inflater_ ? " (unpacked)" : "");
}

std::size_t ByteSource::read(MutableBytes out) {
  const std::size_t got = inflater_ ? read_packed(out) : read_plain(out);
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
  z_stream& stream = inflater_->stream;
  std::size_t filled = 0;
  while (filled < out.size() && !ended_) {
    if (input_.empty() && !refill()) {
      fail<Corrupt>("{}: the gzip data is cut short: the file ends at byte {}, after {} unpacked bytes; get it again",
                    path_.string(), file_read_, offset_ + filled);
    }
    // zlib counts in 32 bits and takes its input as non-const, though it only reads it.
    const std::size_t room = std::min<std::size_t>(out.size() - filled, 1u << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input_.data()));
    stream.avail_in = static_cast<uInt>(input_.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    input_ = input_.last(stream.avail_in);
    filled += room - stream.avail_out;
    if (result == Z_STREAM_END) {
      next_member();
    } else if (result != Z_OK) {
      fail<Corrupt>("{}: damaged gzip data near byte {} of the file, after {} unpacked bytes: {}; get it again",
                    path_.string(), file_offset(), offset_ + filled,
                    stream.msg != nullptr ? stream.msg : "no progress");
    }
  }
  return filled;
}

void ByteSource::next_member() {
  if (input_.empty() && !refill()) {
    ended_ = true;
  } else if (input_.front() == kGzipMagic[0]) {
    inflateReset(&inflater_->stream);  // concatenated gzip files unpack as one
  } else {
    fail<Corrupt>("{}: trailing bytes: the gzip data ends at byte {} of the file, but {} more follow", path_.string(),
                  file_offset(), file_size_ - file_offset());
  }
}

}  // namespace trireme::data
