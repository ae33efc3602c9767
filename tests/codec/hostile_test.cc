#include <limits>

#include <gmock/gmock.h>

#include "base/error.h"
#include "codec/codec.h"
#include "tests/codec/testing.h"
#include "tests/support/expect_fails.h"

namespace trireme::codec {
namespace {

using ::testing::Each;

void put_index(std::vector<std::byte>& bytes, std::size_t i, std::uint32_t index) {
  store_le(std::span(bytes).subspan(i * sizeof(index)), index);
}

/// Both ways of reading `bytes` are refused as Corrupt and leave the output alone.
void expect_refused(const Spec& spec, Bytes bytes, std::size_t count, const std::string& message) {
  std::vector<float> out(count, 7.0f);
  EXPECT_FAILS(decode(spec, 1, bytes, out), Corrupt, message);
  EXPECT_FAILS(add_decoded(spec, 1, bytes, out), Corrupt, message);
  EXPECT_THAT(out, Each(7.0f));
}

TEST(HostileBytes, RefusesEveryWrongSize) {
  for (const Spec& spec : kAllSpecs) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kBlock + 1}) {
      const std::size_t right = encoded_bytes(spec, count);
      for (const std::size_t size : {std::size_t{0}, right / 2, right - 1, right + 1, 2 * right + 8}) {
        if (size == right || size > 100'000) continue;
        expect_refused(spec, std::vector<std::byte>(size), count, std::to_string(right) + " bytes, but");
      }
    }
  }
}

TEST(HostileBytes, IndicesOfTopKMustBeAscendingAndInRange) {
  const Spec spec{.kind = Kind::kTopK, .ratio = 0.03};
  const std::vector<std::byte> good = encoded(spec, 0, gradient_like(100, 1));  // three indices
  const auto with = [&](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::vector<std::byte> bytes = good;
    put_index(bytes, 0, a);
    put_index(bytes, 1, b);
    put_index(bytes, 2, c);
    return bytes;
  };
  EXPECT_NO_THROW(decoded(spec, 0, with(0, 1, 99), 100));
  expect_refused(spec, with(0, 1, 100), 100, "index 2 of 3 in an encoded top-k is 100");
  expect_refused(spec, with(0, 1, std::numeric_limits<std::uint32_t>::max()), 100, "4294967295");
  expect_refused(spec, with(std::numeric_limits<std::uint32_t>::max(), 0, 1), 100, "must be from 0 to 99");
  expect_refused(spec, with(5, 5, 6), 100, "must be from 6 to 99");
  expect_refused(spec, with(7, 6, 8), 100, "must be from 8 to 99");
  expect_refused(spec, with(7, 99, 99), 100, "must be from 100 to 99");
}

/// With sanitizers on, this is where a read or write out of bounds would show.
TEST(HostileBytes, RandomBytesAreDecodedOrRefused) {
  RandomStream random(2024);
  std::size_t refused = 0;
  std::size_t read = 0;
  for (int round = 0; round < 4000; ++round) {
    Spec spec = kAllSpecs[random.below(kAllSpecs.size())];
    spec.ratio = 0.001 + 0.999 * random.uniform();
    const std::size_t count = random.below(2 * kBlock);
    const bool right_size = random.below(4) != 0;
    std::vector<std::byte> bytes(right_size ? encoded_bytes(spec, count) : random.below(5000));
    if (spec.kind == Kind::kTopK && right_size && random.below(2) == 0) {
      encode(spec, 0, gradient_like(count, 1), bytes);  // nearly good: one byte is changed
      if (!bytes.empty()) bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    } else {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    }
    std::vector<float> out(count);
    try {
      decode(spec, random.next(), bytes, out);
      add_decoded(spec, random.next(), bytes, out);
      ++read;
    } catch (const Corrupt&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace trireme::codec
