#include "net/secure/frame_mac.h"

#include <algorithm>

#include "base/error.h"

namespace trireme::net {
namespace {

constexpr std::size_t kNonceBytes = 12;
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

}  // namespace trireme::net
