#include "base/random.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include <openssl/rand.h>

#include "base/error.h"

namespace trireme {
namespace {

std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t mix_seed(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  std::uint64_t mixed = scramble(a + kGolden);
  mixed = scramble(mixed ^ (b + 2 * kGolden));
  return scramble(mixed ^ (c + 3 * kGolden));
}

std::uint64_t RandomStream::next() { return scramble(state_ += 0x9E3779B97F4A7C15ULL); }

std::uint64_t RandomStream::below(std::uint64_t bound) {
  TRIREME_CHECK(bound > 0);
  // Lemire 2019: a multiplication instead of a division, with the rare biased draws rejected.
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide(next()) * bound;
  if (auto low = static_cast<std::uint64_t>(product); low < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (low < threshold) {
      product = Wide(next()) * bound;
      low = static_cast<std::uint64_t>(product);
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  RandomStream random(mix_seed(seed, epoch));
  for (std::uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  if (RAND_bytes(raw.data(), static_cast<int>(bytes)) != 1) fail<IoError>("the system gave no random bytes");
  std::string text;
  for (const unsigned char byte : raw) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace trireme
