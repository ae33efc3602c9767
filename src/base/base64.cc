#include "base/base64.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace trireme {
namespace {

const unsigned char* as_unsigned(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* as_unsigned(std::string& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL appends a terminating zero
  const int size = EVP_EncodeBlock(as_unsigned(text), as_unsigned(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) fail<Corrupt>("{} characters cannot be base64: a multiple of 4 was expected", text.size());
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const bool padded_inside = text.substr(0, text.size() - padding).find('=') != std::string_view::npos;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(as_unsigned(bytes), as_unsigned(text), static_cast<int>(text.size()));
  // OpenSSL skips blanks at both ends and then writes fewer bytes than expected.
  if (padded_inside || size != static_cast<int>(bytes.size())) fail<Corrupt>("a text that should be base64 is not");
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace trireme
