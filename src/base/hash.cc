#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/error.h"

namespace trireme {

struct Sha256::Context {
  EVP_MD_CTX* state = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(state); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  TRIREME_CHECK(EVP_DigestInit_ex(context_->state, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::add(Bytes bytes) { TRIREME_CHECK(EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()) == 1); }

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest;
  TRIREME_CHECK(EVP_DigestFinal_ex(context_->state, digest.data(), nullptr) == 1);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

Digest hmac_sha256(Bytes key, Bytes message) {
  Digest digest;
  unsigned int length = 0;
  const auto* result = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                            reinterpret_cast<unsigned char*>(digest.data()), &length);
  TRIREME_CHECK(result != nullptr && length == digest.size());
  return digest;
}

bool equal_digests(const Digest& a, const Digest& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

namespace {

constexpr auto kCrcTable = [] {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    table[0][i] = crc;
  }
  for (std::size_t slice = 1; slice < 8; ++slice) {
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[slice][i] = (table[slice - 1][i] >> 8) ^ table[0][table[slice - 1][i] & 0xFF];
    }
  }
  return table;
}();

std::uint32_t crc32c_by_table(Bytes bytes, std::uint32_t crc) {
  while (bytes.size() >= 8) {  // eight bytes at a time (Kounavis and Berry 2005)
    const auto word = load_le<std::uint64_t>(bytes) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kCrcTable[7 - i][(word >> (8 * i)) & 0xFF];
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kCrcTable[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
/// The product of two polynomials modulo CRC-32C's; the highest bit is the constant term.
constexpr std::uint32_t multiply_mod(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) ? 0x82F63B78u : 0u);
  }
  return product;
}

/// What a checksum becomes when so many zero bytes follow, byte by byte of it: multiplied by x^(8 count).
template <std::size_t Count>
constexpr auto kShiftTable = [] {
  std::uint32_t power = 0x80000000u;  // 1
  std::uint32_t base = 0x00800000u;   // x^8
  for (std::size_t left = Count; left > 0; left /= 2, base = multiply_mod(base, base)) {
    if (left % 2 == 1) power = multiply_mod(power, base);
  }
  std::array<std::array<std::uint32_t, 256>, 4> table{};
  for (std::uint32_t byte = 0; byte < 4; ++byte) {
    for (std::uint32_t i = 0; i < 256; ++i) table[byte][i] = multiply_mod(power, i << (8 * byte));
  }
  return table;
}();

template <std::size_t Count>
std::uint32_t shift_by(std::uint32_t crc) {
  const auto& table = kShiftTable<Count>;
  return table[0][crc & 0xFF] ^ table[1][(crc >> 8) & 0xFF] ^ table[2][(crc >> 16) & 0xFF] ^ table[3][crc >> 24];
}

/// As long as there are three blocks, does three at a time: the instruction takes three cycles, and one can be begun in
/// each. Leaves the rest in `bytes`.
template <std::size_t Block>
__attribute__((target("sse4.2"))) std::uint64_t crc32c_of_three(Bytes& bytes, std::uint64_t crc) {
  for (; bytes.size() >= 3 * Block; bytes = bytes.subspan(3 * Block)) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < Block; i += 8) {
      crc = __builtin_ia32_crc32di(crc, load_le<std::uint64_t>(bytes.subspan(i)));
      second = __builtin_ia32_crc32di(second, load_le<std::uint64_t>(bytes.subspan(Block + i)));
      third = __builtin_ia32_crc32di(third, load_le<std::uint64_t>(bytes.subspan(2 * Block + i)));
    }
    crc =
        shift_by<Block>(shift_by<Block>(static_cast<std::uint32_t>(crc)) ^ static_cast<std::uint32_t>(second)) ^ third;
  }
  return crc;
}

/// Uses the processor's CRC instruction: fifteen times as fast as tables, which matters for gigabytes of checkpoints
/// and records.
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(Bytes bytes, std::uint32_t crc) {
  std::uint64_t wide = crc;
  wide = crc32c_of_three<1024>(bytes, wide);
  wide = crc32c_of_three<64>(bytes, wide);
  for (; bytes.size() >= 8; bytes = bytes.subspan(8))
    wide = __builtin_ia32_crc32di(wide, load_le<std::uint64_t>(bytes));
  crc = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : bytes) crc = __builtin_ia32_crc32qi(crc, std::to_integer<unsigned char>(byte));
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(Bytes bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) return ~crc32c_by_instruction(bytes, ~crc);
#endif
  return ~crc32c_by_table(bytes, ~crc);
}

}  // namespace trireme
