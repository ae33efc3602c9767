#include "checkpoint/blocks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/document.h"

namespace trireme::checkpoint {
namespace {

/// Returns the pieces of tensors that bytes `begin` to `end` of the file hold.
std::vector<PieceInfo> pieces_within(const PartIndex& index, std::uint64_t begin, std::uint64_t end) {
  std::vector<PieceInfo> within;
  std::uint64_t position = 0;
  for (const PieceInfo& piece : index.pieces) {
    const std::uint64_t from = std::max(begin, position);
    const std::uint64_t to = std::min(end, position + piece.length);
    if (from < to) within.push_back({piece.tensor, piece.offset + (from - position), to - from});
    position += piece.length;
  }
  return within;
}

}  // namespace

std::string describe(const Damage& damage) {
  constexpr std::size_t kMost = 4;
  std::string holds;
  for (std::size_t i = 0; i < std::min(kMost, damage.holds.size()); ++i) {
    const PieceInfo& piece = damage.holds[i];
    holds += fmt::format("{}{} bytes {} to {}", i == 0 ? "" : ", ", shown(piece.tensor), piece.offset,
                         piece.offset + piece.length - 1);
  }
  if (damage.holds.size() > kMost) holds += fmt::format(" and {} more", damage.holds.size() - kMost);
  return fmt::format("{} is damaged in block {} (bytes {} to {}): CRC-32C is {:08x}, expected {:08x}; it holds {}",
                     damage.file.string(), damage.block, damage.begin, damage.end - 1, damage.found, damage.expected,
                     holds);
}

std::uint64_t block_length(const PartIndex& index, std::uint64_t block) {
  return std::min(index.block_bytes, index.bytes - block * index.block_bytes);
}

FileDescriptor open_data(const std::filesystem::path& path) {
  // Non-blocking: opening a named pipe without a writer would otherwise block forever.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_errno("cannot open " + path.string());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_errno("cannot look at " + path.string());
  if (!S_ISREG(status.st_mode)) fail<Corrupt>("{} is not a file", path.string());
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // larger read-ahead
  return file;
}

void read_block(const FileDescriptor& file, const std::filesystem::path& path, const PartIndex& index,
                std::uint64_t block, MutableBytes to) {
  std::uint64_t position = block * index.block_bytes;
  while (!to.empty()) {
    const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(fmt::format("cannot read {} at byte {}", path.string(), position));
    if (got == 0) fail<Corrupt>("{} ends at byte {}, expected {} bytes", path.string(), position, index.bytes);
    to = to.subspan(static_cast<std::size_t>(got));
    position += static_cast<std::uint64_t>(got);
  }
}

std::optional<Damage> check_block(const std::filesystem::path& path, const PartIndex& index, std::uint64_t block,
                                  Bytes bytes) {
  const std::uint32_t found = crc32c(bytes);
  if (found == index.crcs[block]) return std::nullopt;
  const std::uint64_t begin = block * index.block_bytes;
  return Damage{.file = path,
                .part = index.part,
                .block = block,
                .begin = begin,
                .end = begin + bytes.size(),
                .expected = index.crcs[block],
                .found = found,
                .holds = pieces_within(index, begin, begin + bytes.size())};
}

}  // namespace trireme::checkpoint
