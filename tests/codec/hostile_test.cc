#include <signal.h>
#include <sys/mman.h>

#include <functional>
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

/// Both ways of reading `bytes` are refused as Corrupt, and write nothing beyond the output.
std::vector<float> expect_refused(const Spec& spec, Bytes bytes, std::size_t count, const std::string& message) {
  std::vector<float> memory(count + 100, 7.0f);
  const auto out = std::span(memory).first(count);
  EXPECT_FAILS(decode(spec, 1, bytes, out), Corrupt, message);
  EXPECT_FAILS(add_decoded(spec, 1, bytes, out), Corrupt, message);
  EXPECT_THAT(std::span(memory).subspan(count), Each(7.0f));
  memory.resize(count);
  return memory;
}

TEST(HostileBytes, RefusesEveryWrongSize) {
  for (const Spec& spec : kAllSpecs) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100}, kBlock + 1}) {
      const std::size_t right = encoded_bytes(spec, count);
      for (const std::size_t size : {std::size_t{0}, right / 2, right - 1, right + 1, 2 * right + 8}) {
        if (size == right || size > 100'000) continue;
        const std::string message = std::to_string(right) + " bytes, but";
        EXPECT_THAT(expect_refused(spec, std::vector<std::byte>(size), count, message), Each(7.0f));
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

/// Memory that a peer changes while it is read: the first access beyond its first page changes that page.
class ChangingMemory {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kBytes = 3 * kPage;

  explicit ChangingMemory(std::function<void(MutableBytes first_page)> change) : change_(std::move(change)) {
    void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(mapped), kBytes};
  }
  ~ChangingMemory() { ::munmap(memory_.data(), memory_.size()); }
  ChangingMemory(const ChangingMemory&) = delete;
  ChangingMemory& operator=(const ChangingMemory&) = delete;

  MutableBytes bytes() const { return memory_; }

  /// Runs `read`, in which the memory changes; returns whether it has.
  bool change_during(const std::function<void()>& read) {
    armed = this;
    changed_ = false;
    struct sigaction action {};
    action.sa_handler = [](int) { armed->change(); };
    struct sigaction before {};
    ::sigaction(SIGSEGV, &action, &before);
    ::mprotect(memory_.data() + kPage, kBytes - kPage, PROT_NONE);
    read();
    ::sigaction(SIGSEGV, &before, nullptr);
    return changed_;
  }

 private:
  void change() {
    ::mprotect(memory_.data() + kPage, kBytes - kPage, PROT_READ | PROT_WRITE);
    change_(memory_.first(kPage));
    changed_ = true;
  }

  static inline ChangingMemory* armed = nullptr;

  std::function<void(MutableBytes)> change_;
  MutableBytes memory_;
  bool changed_ = false;
};

TEST(HostileBytes, IndicesThatChangeWhileTheyAreReadWriteNothingOutOfBounds) {
  constexpr std::size_t kCount = ChangingMemory::kBytes / 8;  // all are sent: the indices fill one page and a half
  const Spec spec{.kind = Kind::kTopK, .ratio = 1.0};
  const std::vector<std::byte> good = encoded(spec, 0, std::vector<float>(kCount, 1.0f));
  ASSERT_EQ(good.size(), ChangingMemory::kBytes);
  for (const auto read : {decode, add_decoded}) {
    ChangingMemory memory([](MutableBytes first_page) {
      for (std::size_t i = 0; i < first_page.size() / sizeof(std::uint32_t); ++i) {
        store_le(first_page.subspan(i * sizeof(std::uint32_t)), static_cast<std::uint32_t>(kCount + i));
      }
    });
    std::ranges::copy(good, memory.bytes().begin());
    std::vector<float> out(3 * kCount, 0.0f);
    EXPECT_TRUE(memory.change_during(
        [&] { EXPECT_FAILS(read(spec, 0, memory.bytes(), std::span(out).first(kCount)), Corrupt, "must be from"); }));
    EXPECT_THAT(std::span(out).subspan(kCount), Each(0.0f));
  }
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
