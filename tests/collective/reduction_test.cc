#include "collective/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/random.h"

namespace trireme::collective {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
constexpr std::size_t kSizes[] = {0, 1, 7, 4095, 4097};
constexpr std::uint64_t kDivisor = 3;

template <typename T>
bool same_bytes(std::span<const T> a, std::span<const T> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

/// An element type: `Stored` in memory, `Value` in the reference, which has no vectors, blocks or stack.
template <DType Element, typename S, typename V>
struct Type {
  using Stored = S;
  using Value = V;
  static constexpr DType kDType = Element;

  static Value up(Stored element) {
    if constexpr (kDType == DType::kF16) {
      return f16_to_f32(element);
    } else if constexpr (kDType == DType::kBF16) {
      return bf16_to_f32(element);
    } else {
      return element;
    }
  }
  static Stored down(Value value) {
    if constexpr (kDType == DType::kF16) {
      return f32_to_f16(value);
    } else if constexpr (kDType == DType::kBF16) {
      return f32_to_bf16(value);
    } else {
      return value;
    }
  }

  static Stored random(RandomStream& random) {
    if constexpr (std::is_floating_point_v<Value>) {
      // Magnitudes apart enough that the order of a sum shows, not so far that all products overflow.
      const double number = random.normal() * std::exp(2 * random.normal());
      switch (random.below(50)) {
        case 0:
          return down(std::numeric_limits<Value>::quiet_NaN());
        case 1:
          return down(-std::numeric_limits<Value>::infinity());
        case 2:
          return down(static_cast<Value>(-0.0));
        default:
          return down(static_cast<Value>(number));
      }
    } else {
      return static_cast<Stored>(random.next());
    }
  }

  static Value combined(ReduceOp op, Value a, Value b) {
    if constexpr (std::is_floating_point_v<Value>) {
      if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Value>::quiet_NaN();
        if (a == b) return b;
        return (op == ReduceOp::kMin) == (a < b) ? a : b;
      }
      return op == ReduceOp::kProduct ? a * b : a + b;
    } else {
      if (op == ReduceOp::kMin) return std::min(a, b);
      if (op == ReduceOp::kMax) return std::max(a, b);
      const auto wide_a = static_cast<std::uint64_t>(std::int64_t{a});
      const auto wide_b = static_cast<std::uint64_t>(std::int64_t{b});
      return static_cast<Value>(op == ReduceOp::kProduct ? wide_a * wide_b : wide_a + wide_b);
    }
  }

  static Value divided(Value value, std::uint64_t divisor) {
    if constexpr (std::is_floating_point_v<Value>) {
      return value / static_cast<Value>(divisor);
    } else {
      return static_cast<Value>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(divisor));
    }
  }

  /// The same bits, or both NaN.
  static bool same(Stored a, Stored b) {
    if constexpr (std::is_floating_point_v<Value>) {
      if (std::isnan(up(a)) && std::isnan(up(b))) return true;
    }
    return same_bytes(std::span<const Stored>(&a, 1), std::span<const Stored>(&b, 1));
  }
};

/// Elements at an address that is odd, unless `offset` is 0.
template <typename Stored>
class Elements {
 public:
  Elements(const std::vector<Stored>& values, std::size_t offset)
      : bytes_(values.size() * sizeof(Stored) + offset + kGuard, std::byte{0x5a}),
        offset_(offset),
        count_(values.size()) {
    if (count_ > 0) std::memcpy(data(), values.data(), count_ * sizeof(Stored));
  }

  std::byte* data() { return bytes_.data() + offset_; }

  std::vector<Stored> values() const {
    std::vector<Stored> copy(count_);
    if (count_ > 0) std::memcpy(copy.data(), bytes_.data() + offset_, count_ * sizeof(Stored));
    return copy;
  }

  bool nothing_else_was_written() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool is_ours = i >= offset_ && i < offset_ + count_ * sizeof(Stored);
      if (!is_ours && bytes_[i] != std::byte{0x5a}) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  std::vector<std::byte> bytes_;
  std::size_t offset_;
  std::size_t count_;
};

template <typename T>
class Reduction : public ::testing::Test {
 protected:
  using Stored = typename T::Stored;
  using Value = typename T::Value;

  void fill(std::size_t parts, std::size_t count) {
    RandomStream random(mix_seed(parts, count));
    parts_.assign(parts, std::vector<Stored>(count));
    for (auto& part : parts_) {
      for (Stored& element : part) element = T::random(random);
    }
  }

  /// The definition: one element, recursively, absent lanes skipped.
  std::optional<Value> element(ReduceOp op, LaneRange node, const std::vector<LaneRange>& ranges, std::size_t i) const {
    for (std::size_t part = 0; part < ranges.size(); ++part) {
      if (ranges[part] == node) return T::up(parts_[part][i]);
    }
    if (node.count == 1) return std::nullopt;
    const Lane left_count = left_lanes(node.count);
    const auto left = element(op, {node.first, left_count}, ranges, i);
    const auto right = element(op, {node.first + left_count, node.count - left_count}, ranges, i);
    if (left && right) return T::combined(op, *left, *right);
    return left ? left : right;
  }

  std::vector<Stored> expected(ReduceOp op, Lane lanes, const std::vector<LaneRange>& ranges) const {
    std::vector<Stored> result(parts_[0].size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const Value value = element(op, {0, lanes}, ranges, i).value();
      const bool untouched = ranges.size() == 1 && op != ReduceOp::kAverage;
      result[i] = untouched ? parts_[0][i] : T::down(op == ReduceOp::kAverage ? T::divided(value, kDivisor) : value);
    }
    return result;
  }

  static void expect_same(const std::vector<Stored>& got, const std::vector<Stored>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(T::same(got[i], wanted[i])) << "element " << i << ": " << +got[i] << ", not " << +wanted[i];
    }
  }

  /// Into separate memory, streamed or not, and in place of each part.
  void check(ReduceOp op, Lane lanes, const std::vector<LaneRange>& ranges, std::size_t offset) const {
    SCOPED_TRACE(fmt::format("{} {} of {} parts of {} lanes, {} elements, offset {}", name_of(T::kDType), name_of(op),
                             ranges.size(), lanes, parts_[0].size(), offset));
    const std::vector<Stored> wanted = expected(op, lanes, ranges);
    for (std::size_t target = 0; target < ranges.size() + 2; ++target) {
      std::vector<Elements<Stored>> memory;
      // Offsets differ between the parts, too.
      for (const auto& part : parts_) memory.emplace_back(part, offset == 0 ? 0 : offset + memory.size() % 3);
      memory.emplace_back(std::vector<Stored>(wanted.size()), offset);
      std::vector<Contribution> parts;
      for (std::size_t i = 0; i < ranges.size(); ++i) parts.push_back({ranges[i], memory[i].data()});
      Elements<Stored>& out = memory[std::min(target, ranges.size())];
      reduce(T::kDType, op, lanes, parts, wanted.size(), out.data(), kDivisor, target == ranges.size());
      expect_same(out.values(), wanted);
      ASSERT_TRUE(out.nothing_else_was_written());
    }
  }

  std::vector<std::vector<Stored>> parts_;
};

using Types =
    ::testing::Types<Type<DType::kF32, float, float>, Type<DType::kF64, double, double>,
                     Type<DType::kF16, std::uint16_t, float>, Type<DType::kBF16, std::uint16_t, float>,
                     Type<DType::kI8, std::int8_t, std::int8_t>, Type<DType::kU8, std::uint8_t, std::uint8_t>,
                     Type<DType::kI16, std::int16_t, std::int16_t>, Type<DType::kI32, std::int32_t, std::int32_t>,
                     Type<DType::kI64, std::int64_t, std::int64_t>>;
TYPED_TEST_SUITE(Reduction, Types);

TYPED_TEST(Reduction, AgreesWithTheDefinition) {
  for (std::uint32_t parts = 1; parts <= 8; ++parts) {
    for (const std::size_t count : kSizes) {
      this->fill(parts, count);
      for (const ReduceOp op : kOps) {
        std::vector<LaneRange> single;
        for (Lane lane = 0; lane < parts; ++lane) single.push_back({lane, 1});
        for (const std::size_t offset : {0, 1}) {
          this->check(op, parts, single, offset);
          this->check(op, 11, deal_lanes(11, parts), offset);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(Reduction, MissingLanesAreSkipped) {
  this->fill(3, 100);
  this->check(ReduceOp::kSum, 9, {{1, 1}, {4, 2}, {8, 1}}, 0);
  this->check(ReduceOp::kAverage, 9, {{2, 2}, {4, 4}, {8, 1}}, 0);
}

TYPED_TEST(Reduction, LargeDataMatchesTheDefinition) {
  const std::size_t count = (300'000 + 10) / sizeof(typename TypeParam::Stored);
  this->fill(5, count);
  this->check(ReduceOp::kSum, 5, deal_lanes(5, 5), 1);
}

TYPED_TEST(Reduction, CombineReducesTwoOperands) {
  for (const std::size_t count : kSizes) {
    this->fill(2, count);
    for (const ReduceOp op : kOps) {
      Elements into(this->parts_[0], 1);
      Elements from(this->parts_[1], 3);
      combine(TypeParam::kDType, op, into.data(), from.data(), count);
      const ReduceOp undivided = op == ReduceOp::kAverage ? ReduceOp::kSum : op;
      this->expect_same(into.values(), this->expected(undivided, 2, {{0, 1}, {1, 1}}));
      EXPECT_TRUE(into.nothing_else_was_written());
    }
  }
}

TYPED_TEST(Reduction, DivideCompletesAnAverage) {
  this->fill(1, 4097);
  Elements values(this->parts_[0], 1);
  divide(TypeParam::kDType, values.data(), 4097, kDivisor);
  this->expect_same(values.values(), this->expected(ReduceOp::kAverage, 1, {{0, 1}}));
}

template <typename T>
T reduced(DType dtype, ReduceOp op, std::vector<T> values, std::uint64_t divisor = 1) {
  std::vector<Contribution> parts;
  for (const T& value : values) {
    parts.push_back({{static_cast<Lane>(parts.size()), 1}, reinterpret_cast<const std::byte*>(&value)});
  }
  T out{};
  reduce(dtype, op, static_cast<Lane>(parts.size()), parts, 1, reinterpret_cast<std::byte*>(&out), divisor);
  return out;
}

TEST(ReductionOf, IntegersWrapAndTruncate) {
  EXPECT_EQ(reduced<std::int8_t>(DType::kI8, ReduceOp::kSum, {100, 100}), -56);
  EXPECT_EQ(reduced<std::int8_t>(DType::kI8, ReduceOp::kAverage, {100, 100}, 2), -28);
  EXPECT_EQ(reduced<std::int16_t>(DType::kI16, ReduceOp::kProduct, {-32768, -1}), -32768);
  EXPECT_EQ(reduced<std::int32_t>(DType::kI32, ReduceOp::kAverage, {-3, -4}, 2), -3);
  EXPECT_EQ(reduced<std::uint8_t>(DType::kU8, ReduceOp::kAverage, {200, 55}, 300), 0);  // 300 is no U8
  EXPECT_EQ(reduced<std::int64_t>(DType::kI64, ReduceOp::kSum, {std::numeric_limits<std::int64_t>::max(), 1}),
            std::numeric_limits<std::int64_t>::min());
}

TEST(ReductionOf, SixteenBitTypesAreRoundedOnce) {
  // 2049 = 2048 + 1 is no F16: rounded after each addition the sum would stay at 2048 for ever.
  std::vector<std::uint16_t> halves(8, f32_to_f16(1.0f));
  halves[0] = f32_to_f16(2048.0f);
  EXPECT_EQ(f16_to_f32(reduced(DType::kF16, ReduceOp::kSum, halves)), 2056.0f);  // 2055, a tie, to even
  // The sum overflows F16, the average does not.
  EXPECT_EQ(
      f16_to_f32(reduced<std::uint16_t>(DType::kF16, ReduceOp::kAverage, {f32_to_f16(60000), f32_to_f16(60000)}, 2)),
      f16_to_f32(f32_to_f16(60000)));
}

TEST(ReductionOf, MinAndMaxPropagateNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    EXPECT_TRUE(std::isnan(reduced<float>(DType::kF32, op, {nan, 1, 2})));
    EXPECT_TRUE(std::isnan(reduced<float>(DType::kF32, op, {1, 2, nan})));
  }
  EXPECT_EQ(reduced<float>(DType::kF32, ReduceOp::kMin, {3, -1, 2}), -1);
  EXPECT_EQ(reduced<float>(DType::kF32, ReduceOp::kMax, {3, -1, 2}), 3);
}

TEST(ReductionOf, FloatSumsHaveTheBitsOfTreeSum) {
  const std::size_t count = 70'001;
  const Lane lanes = 13;
  for (std::uint32_t parts = 1; parts <= lanes; ++parts) {
    RandomStream random(parts);
    std::vector<std::vector<float>> values(parts, std::vector<float>(count));
    std::vector<Contribution> contributions;
    std::vector<Partial> partials;
    for (const LaneRange& range : deal_lanes(lanes, parts)) {
      std::vector<float>& mine = values[partials.size()];
      for (float& value : mine) value = static_cast<float>(random.normal() * std::exp(5 * random.normal()));
      contributions.push_back({range, reinterpret_cast<const std::byte*>(mine.data())});
      partials.push_back({range, mine.data()});
    }
    std::vector<float> sum(count);
    std::vector<float> wanted(count);
    reduce(DType::kF32, ReduceOp::kSum, lanes, contributions, count, reinterpret_cast<std::byte*>(sum.data()), 1);
    tree_sum(lanes, partials, 0, wanted);
    ASSERT_TRUE(same_bytes<float>(sum, wanted)) << parts << " parts";
  }
}

TEST(ReductionOf, BoolIsRefusedWithAnAlternative) {
  std::byte value{1};
  EXPECT_THAT([&] { combine(DType::kBool, ReduceOp::kMax, &value, &value, 1); },
              ThrowsMessage<InvalidArgument>(HasSubstr("BOOL cannot be reduced: convert them to U8")));
}

TEST(ReductionOf, OperationsHaveNames) {
  std::vector<std::string_view> names;
  for (const ReduceOp op : kOps) names.push_back(name_of(op));
  EXPECT_THAT(names, ::testing::ElementsAre("sum", "average", "min", "max", "product"));
}

TEST(ReductionDeathTest, InvalidPartsAbort) {
  const std::vector<float> values(1);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  float out = 0;
  const auto sum = [&](Lane lanes, const std::vector<Contribution>& parts, std::uint64_t divisor) {
    reduce(DType::kF32, ReduceOp::kAverage, lanes, parts, 1, reinterpret_cast<std::byte*>(&out), divisor);
  };
  EXPECT_DEATH(sum(4, {{{0, 1}, bytes}, {{1, 2}, bytes}, {{3, 1}, bytes}}, 1), "crosses lane 2");
  EXPECT_DEATH(sum(4, {{{2, 1}, bytes}, {{1, 1}, bytes}, {{3, 1}, bytes}}, 1), "out of order");
  EXPECT_DEATH(sum(4, {}, 1), "0 contributions");
  EXPECT_DEATH(sum(4, {{{0, 1}, bytes}}, 0), "divisor 0");
}

}  // namespace
}  // namespace trireme::collective
