#include "data/text/text_stream.h"

#include "data/text/words.h"

namespace trireme::data {
namespace {

constexpr std::size_t kPieceBytes = 4 * kMiB;

}  // namespace

/// Fills the buffer behind what was returned; false at the end of the last file.
bool TextStream::refill() {
  buffer_.erase(0, used_);
  used_ = 0;
  while (buffer_.size() < kPieceBytes) {
    if (source_ended_ && !buffer_.empty()) return true;
    if (source_ended_) {
      if (next_file_ == files_.size()) return false;
      source_ = std::make_unique<ByteSource>(files_[next_file_++]);
      source_ended_ = false;
    }
    const std::size_t held = buffer_.size();
    buffer_.resize(kPieceBytes);
    const std::size_t got = source_->read(std::as_writable_bytes(std::span(buffer_).subspan(held)));
    buffer_.resize(held + got);
    source_ended_ = buffer_.size() < kPieceBytes;
  }
  return true;
}

std::string_view TextStream::next(std::uint64_t limit) {
  file_ended_ = false;
  if (!refill()) return {};
  std::string_view piece = buffer_;
  if (!source_ended_) {
    const std::size_t cut = last_cut(piece);
    piece = piece.substr(0, cut > 0 ? cut : piece.size());
  }
  if (limit > offset_ && limit - offset_ < piece.size()) {
    const std::size_t cut = last_cut(piece.substr(0, static_cast<std::size_t>(limit - offset_) + 1));
    if (cut > 0) piece = piece.substr(0, cut);
  }
  used_ = piece.size();
  offset_ += piece.size();
  file_ended_ = source_ended_ && used_ == buffer_.size();
  return piece;
}

}  // namespace trireme::data
