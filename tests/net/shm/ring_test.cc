#include "net/shm/ring.h"

#include <thread>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::net {
namespace {

constexpr std::size_t kCapacity = 256;

struct RingTest : ::testing::Test {
  alignas(64) std::array<std::byte, Ring::kControlBytes + kCapacity> memory{};
  Ring producer{memory};
  Ring consumer{memory};

  bool push(const std::string& text) {
    const Bytes parts[] = {as_bytes(text).first(text.size() / 2), as_bytes(text).subspan(text.size() / 2)};
    return producer.push(parts);
  }
  std::string pop() {
    std::string record;
    return consumer.pop(record) ? record : "(none)";
  }
  void set_written(std::uint64_t position) { store_le(MutableBytes(memory), position); }
  void set_read(std::uint64_t position) { store_le(MutableBytes(memory).subspan(64), position); }
};

TEST_F(RingTest, RecordsArriveInOrderAndWhole) {
  EXPECT_EQ(pop(), "(none)");
  EXPECT_TRUE(consumer.empty());
  EXPECT_TRUE(push("first"));
  EXPECT_TRUE(push(""));
  EXPECT_TRUE(push("third"));
  EXPECT_FALSE(consumer.empty());
  EXPECT_EQ(pop(), "first");
  EXPECT_EQ(pop(), "");
  EXPECT_EQ(pop(), "third");
  EXPECT_EQ(pop(), "(none)");
}

TEST_F(RingTest, WrapsAroundAtEveryOffset) {
  for (std::size_t i = 0; i < 3 * kCapacity; ++i) {
    const std::string text(i % 61, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(push(text));
    ASSERT_EQ(pop(), text);
  }
}

TEST_F(RingTest, FullRefusesAndRecovers) {
  const std::string large(kCapacity - 4, 'x');
  ASSERT_TRUE(push(large));
  EXPECT_FALSE(push(""));
  EXPECT_EQ(pop(), large);
  EXPECT_TRUE(push(""));
  EXPECT_EQ(producer.max_record(), large.size());
  EXPECT_FAILS(push(large + "x"), InvalidArgument, "does not fit");
}

TEST_F(RingTest, ImpossiblePositionsAreRefused) {
  for (const std::uint64_t written :
       {std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{kCapacity + 1}, ~std::uint64_t{0}}) {
    set_written(written);
    EXPECT_FAILS(pop(), Corrupt, "impossible");
  }
  set_written(0);
  set_read(1);
  EXPECT_FAILS(push("x"), Corrupt, "impossible");
}

TEST_F(RingTest, RefusesALengthBeyondTheRecord) {
  ASSERT_TRUE(push("12345678"));
  for (const std::uint32_t length : {9u, 0x7fffffffu, 0xffffffffu}) {
    store_le(MutableBytes(memory).subspan(Ring::kControlBytes), length);
    EXPECT_FAILS(pop(), Corrupt, "claims");
  }
}

TEST_F(RingTest, AnyPositionsStayInsideTheMemory) {  // for the address sanitizer
  for (std::uint64_t base : {std::uint64_t{0}, std::uint64_t{250}, ~std::uint64_t{0} - 100}) {
    for (std::uint64_t ahead = 0; ahead < 300; ++ahead) {
      set_read(base);
      set_written(base + ahead);
      try {
        pop();
        set_read(base);
        push(std::string(ahead % 100, 'y'));
      } catch (const Corrupt&) {
      }
    }
  }
}

TEST_F(RingTest, TwoThreadsHundredThousandRecords) {
  constexpr std::uint32_t kRecords = 100'000;
  std::thread writer([&] {
    for (std::uint32_t i = 0; i < kRecords; ++i) {
      const std::string text = std::to_string(i) + std::string(i % 97, '.');
      while (!push(text)) std::this_thread::yield();
    }
  });
  std::string record;
  for (std::uint32_t i = 0; i < kRecords; ++i) {
    while (!consumer.pop(record)) std::this_thread::yield();
    if (record != std::to_string(i) + std::string(i % 97, '.')) ADD_FAILURE() << i << ": " << record;
  }
  writer.join();
  EXPECT_TRUE(consumer.empty());
}

}  // namespace
}  // namespace trireme::net
