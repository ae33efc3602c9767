#include "net/secure/frame_mac.h"

#include <algorithm>
#include <cstring>

#include <openssl/crypto.h>

#include "base/error.h"

namespace trireme::net {
namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kSizeBytes = 4;
constexpr std::size_t kAroundContent = kSizeBytes + std::tuple_size_v<FrameTag>;
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // OpenSSL counts in int

const unsigned char* plain(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

}  // namespace

FrameMac::FrameMac(const Digest& key) : context_(EVP_CIPHER_CTX_new()) {
  static_assert(std::tuple_size_v<Digest> >= 16);
  TRIREME_CHECK(context_ && EVP_EncryptInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, plain(key.data()), nullptr));
}

FrameTag FrameMac::next(std::span<const Bytes> parts) {
  std::array<std::byte, kNonceBytes> nonce{};
  store_le(MutableBytes(nonce), frames_++);
  int ignored = 0;
  bool done = EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, plain(nonce.data())) == 1;
  for (Bytes part : parts) {
    while (done && !part.empty()) {
      const Bytes now = part.first(std::min(part.size(), kMostAtOnce));
      done = EVP_EncryptUpdate(context_.get(), nullptr, &ignored, plain(now.data()), static_cast<int>(now.size())) == 1;
      part = part.subspan(now.size());
    }
  }
  FrameTag tag;
  unsigned char nothing[16];
  done = done && EVP_EncryptFinal_ex(context_.get(), nothing, &ignored) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1;
  TRIREME_CHECK(done, "OpenSSL computes no GMAC");
  return tag;
}

void RecordWriter::begin(Bytes bytes) {
  if (sent_ < record_.size()) return;
  const std::size_t size = std::min(bytes.size(), kMostRecord);
  record_.resize(kAroundContent + size);
  sent_ = 0;
  store_le(MutableBytes(record_), static_cast<std::uint32_t>(size));
  std::memcpy(record_.data() + kSizeBytes, bytes.data(), size);
  const std::array<Bytes, 1> all{Bytes(record_).first(kSizeBytes + size)};
  const FrameTag tag = mac_.next(all);
  std::memcpy(record_.data() + kSizeBytes + size, tag.data(), tag.size());
}

std::size_t RecordWriter::sent(std::size_t count) {
  sent_ += count;
  return sent_ == record_.size() ? record_.size() - kAroundContent : 0;
}

std::size_t RecordReader::take(MutableBytes out) {
  if (left_ == 0 && !open_next()) return 0;
  const std::size_t size = std::min(out.size(), left_);
  std::memcpy(out.data(), buffer_.data() + content_, size);
  content_ += size;
  left_ -= size;
  return size;
}

bool RecordReader::open_next() {
  if (end_ - begin_ < kSizeBytes) return false;
  const std::size_t size = load_le<std::uint32_t>(Bytes(buffer_).subspan(begin_));
  if (size == 0 || size > kMostRecord) fail<Corrupt>("a record of {} bytes: something was changed on its way", size);
  if (end_ - begin_ < kAroundContent + size) return false;
  const std::array<Bytes, 1> all{Bytes(buffer_).subspan(begin_, kSizeBytes + size)};
  const FrameTag expected = mac_.next(all);
  if (CRYPTO_memcmp(expected.data(), buffer_.data() + begin_ + kSizeBytes + size, expected.size()) != 0) {
    fail<Corrupt>("bytes were changed, or added, on their way: a tag does not match");
  }
  content_ = begin_ + kSizeBytes;
  left_ = size;
  begin_ += kAroundContent + size;
  return true;
}

MutableBytes RecordReader::room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (buffer_.size() - begin_ < kAroundContent + kMostRecord) {  // the record might not fit behind it
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return MutableBytes(buffer_).subspan(end_);
}

}  // namespace trireme::net
