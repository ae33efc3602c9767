#include "tests/collective/suite.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "collective/rank_group.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargeBytes = 3u << 20;
constexpr std::byte kUntouched{0xa5};

/// Elements in memory that begins at any address, with a strip behind them that nobody may touch.
class TestMemory {
 public:
  TestMemory(DType dtype, std::size_t count, std::size_t misalignment)
      : dtype_(dtype), count_(count), at_(misalignment), bytes_(at_ + size() + kStrip, kUntouched) {}

  Array array() { return part(0, count_); }
  Array part(std::size_t first, std::size_t count) {
    return {dtype_, bytes_.data() + at_ + first * size_of(dtype_), count};
  }
  void fill(Bytes content, std::size_t first = 0) {
    if (!content.empty()) std::memcpy(part(first, 0).data, content.data(), content.size());
  }
  Bytes content() const { return Bytes(bytes_).subspan(at_, size()); }
  bool strip_is_untouched() const {
    return std::ranges::all_of(Bytes(bytes_).last(kStrip), [](std::byte byte) { return byte == kUntouched; });
  }

 private:
  static constexpr std::size_t kStrip = 64;

  std::size_t size() const { return count_ * size_of(dtype_); }

  DType dtype_;
  std::size_t count_;
  std::size_t at_;
  std::vector<std::byte> bytes_;
};

/// What reductions must give, worked out once for all ranks of this process. Large ones are made by reduction.h, which
/// has tests of its own.
class Expectations {
 public:
  using Result = std::shared_ptr<const std::vector<std::byte>>;

  Result reduction(DType dtype, ReduceOp op, std::size_t count, std::uint32_t ranks) {
    const std::lock_guard lock(mutex_);
    const Key key{dtype, op, count, ranks};
    Result& result = known_[key];
    if (!result) {
      result = std::make_shared<std::vector<std::byte>>(count * size_of(dtype) <= 2 * kPage
                                                            ? slow_reduction(dtype, op, count, ranks)
                                                            : quick_reduction(dtype, op, count, ranks));
    }
    const Result kept = result;
    if (count * size_of(dtype) > kPage) std::erase_if(known_, [&](const auto& entry) { return is_old(entry, key); });
    return kept;
  }

 private:
  using Key = std::tuple<DType, ReduceOp, std::size_t, std::uint32_t>;

  static bool is_old(const std::pair<const Key, Result>& entry, const Key& key) {
    return entry.first != key && entry.second.use_count() == 1;
  }

  static std::vector<std::byte> quick_reduction(DType dtype, ReduceOp op, std::size_t count, std::uint32_t ranks) {
    std::vector<std::vector<std::byte>> inputs;
    std::vector<Contribution> parts;
    for (Rank rank = 0; rank < ranks; ++rank) {
      inputs.push_back(test_input(dtype, count, rank));
      parts.push_back({{rank, 1}, inputs.back().data()});
    }
    std::vector<std::byte> result(count * size_of(dtype));
    collective::reduce(dtype, op, ranks, parts, count, result.data(), ranks);
    return result;
  }

  std::mutex mutex_;
  std::map<Key, Result> known_;  // guarded by mutex_
};

/// `total` elements in `parts` parts of very different sizes, one of them empty.
std::vector<std::size_t> uneven(std::size_t total, std::uint32_t parts, std::size_t salt) {
  if (parts == 1) return {total};
  std::vector<std::size_t> counts(parts);
  const std::size_t weights = std::size_t{parts} * (parts - 1) / 2;
  for (std::uint32_t i = 0; i < parts; ++i) counts[i] = total * ((i + salt) % parts) / weights;
  const std::size_t largest = (parts - 1 + parts - salt % parts) % parts;
  counts[largest] += total - std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  return counts;
}

/// One rank's walk through all combinations.
class Walk {
 public:
  Walk(Communicator& ranks, const Scope& scope) : ranks_(ranks), scope_(scope), n_(ranks.size()), rank_(ranks.rank()) {}

  void go() {
    for (const DType dtype : scope_.types) {
      dtype_ = dtype;
      const std::size_t element = size_of(dtype);
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1013}, kPage / element - 1,
                                      kPage / element + 1, kLargeBytes / element + 1}) {
        count_ = count;
        const bool few = count > kLargeBytes / element && scope_.large == Scope::Large::kFew;
        for (const ReduceOp op : all_ops()) {
          const bool chosen = dtype == DType::kF32 || (op == ReduceOp::kSum && dtype == DType::kBF16);
          if (!few || chosen) reductions(op);
        }
        if (!few || dtype == DType::kF32 || dtype == DType::kI8) moves();
      }
    }
  }

 private:
  void reductions(ReduceOp op) {
    const auto expected = expectations().reduction(dtype_, op, count_, n_);
    const auto input = test_input(dtype_, count_, rank_);
    const ReduceOptions options{.op = op};
    {
      TestMemory in = memory(count_, input);
      TestMemory out = memory(count_);
      run(all_reduce(in.array(), out.array(), options));
      compare(*expected, out);
      compare(input, in);
    }
    {
      TestMemory data = memory(count_, input);
      run(all_reduce(data.array(), options));
      compare(*expected, data);
    }
    {
      const Rank root = next_root();
      TestMemory in = memory(count_, input);
      TestMemory out = memory(rank_ == root ? count_ : 0);
      const bool in_place = salt_ % 2 == 0 && rank_ == root;
      run(reduce(in.array(), in_place ? in.array() : out.array(), root, options));
      if (rank_ == root) compare(*expected, in_place ? in : out);
      if (!in_place) compare(input, in);
    }
    const std::size_t divisible = count_ - count_ % n_;
    scattered_reduction(*expected, divisible, std::vector<std::size_t>(n_, divisible / n_), {.op = op}, false);
    scattered_reduction(*expected, count_, uneven(count_, n_, ++salt_), {.op = op}, true);
  }

  /// The reduction of the first `total` elements, of which each rank gets its part; in place it lies in the input.
  void scattered_reduction(Bytes expected, std::size_t total, const std::vector<std::size_t>& counts,
                           const ReduceOptions& options, bool in_place) {
    const auto at = positions(counts);
    TestMemory in = memory(total, test_input(dtype_, total, rank_));
    TestMemory out = memory(counts[rank_]);
    const Array target = in_place ? in.part(at[rank_], counts[rank_]) : out.array();
    run(reduce_scatter(in.array(), target, options, in_place ? counts : std::vector<std::size_t>()));
    const std::size_t element = size_of(dtype_);
    compare(expected.subspan(at[rank_] * element, counts[rank_] * element), target.bytes());
    EXPECT_TRUE(in.strip_is_untouched() && out.strip_is_untouched()) << current_;
  }

  void moves() {
    broadcasts();
    const std::size_t part = count_ / n_;
    gathers(std::vector<std::size_t>(n_, part), false);
    gathers(uneven(count_, n_, ++salt_), true);
    exchanges();
    if (n_ > 1) messages();
    run(barrier());
  }

  void broadcasts() {
    const Rank root = next_root();
    TestMemory data = memory(count_);
    if (rank_ == root) data.fill(test_input(dtype_, count_, rank_));
    run(broadcast(data.array(), root));
    compare(test_input(dtype_, count_, root), data);
  }

  /// all_gather, gather and scatter of parts of these sizes.
  void gathers(const std::vector<std::size_t>& counts, bool in_place) {
    const auto at = positions(counts);
    const auto given = in_place ? counts : std::vector<std::size_t>();
    const std::size_t total = at.back();
    const std::size_t own_count = counts[rank_];
    std::vector<std::byte> everything;
    for (Rank rank = 0; rank < n_; ++rank) {
      const auto part = test_input(dtype_, counts[rank], rank);
      everything.insert(everything.end(), part.begin(), part.end());
    }
    const auto own = test_input(dtype_, own_count, rank_);
    {
      TestMemory in = memory(own_count, own);
      TestMemory out = memory(total);
      if (in_place) out.fill(own, at[rank_]);
      run(all_gather(in_place ? out.part(at[rank_], own_count) : in.array(), out.array(), given));
      compare(everything, out);
    }
    const Rank root = next_root();
    const bool at_root = rank_ == root;
    {
      TestMemory in = memory(own_count, own);
      TestMemory out = memory(at_root ? total : 0);
      if (at_root) out.fill(own, at[rank_]);
      run(gather(at_root && in_place ? out.part(at[rank_], own_count) : in.array(), out.array(), root, given));
      if (at_root) compare(everything, out);
    }
    {
      TestMemory in = memory(at_root ? total : 0);
      if (at_root) in.fill(everything);
      TestMemory out = memory(own_count);
      const Array target = at_root && in_place ? in.part(at[rank_], own_count) : out.array();
      run(scatter(in.array(), target, root, given));
      compare(own, target.bytes());
      EXPECT_TRUE(in.strip_is_untouched() && out.strip_is_untouched()) << current_;
    }
  }

  /// all_to_all: equal parts in place, uneven parts from here to there.
  void exchanges() {
    const std::size_t part = count_ / n_;
    const std::size_t element = size_of(dtype_);
    {
      TestMemory data = memory(n_ * part, test_input(dtype_, n_ * part, rank_));
      run(all_to_all(data.array(), data.array()));
      TestMemory expected = memory(n_ * part);
      for (Rank from = 0; from < n_; ++from) {
        const auto input = test_input(dtype_, n_ * part, from);
        expected.fill(Bytes(input).subspan(rank_ * part * element, part * element), from * part);
      }
      compare(expected.content(), data);
    }
    const auto give = [&, salt = salt_](Rank from) { return uneven(count_, n_, salt + 3 * std::size_t{from}); };
    const auto to = give(rank_);
    std::vector<std::size_t> from(n_);
    for (Rank peer = 0; peer < n_; ++peer) from[peer] = give(peer)[rank_];
    const auto at = positions(from);
    TestMemory expected = memory(at.back());
    for (Rank peer = 0; peer < n_; ++peer) {
      const auto input = test_input(dtype_, count_, peer);
      expected.fill(Bytes(input).subspan(positions(give(peer))[rank_] * element, from[peer] * element), at[peer]);
    }
    TestMemory in = memory(count_, test_input(dtype_, count_, rank_));
    TestMemory out = memory(at.back());
    run(all_to_all(in.array(), out.array(), to, from));
    compare(expected.content(), out);
  }

  /// Everybody sends to the right and receives from the left, at the same time.
  void messages() {
    const Rank left = (rank_ + n_ - 1) % n_;
    TestMemory in = memory(count_, test_input(dtype_, count_, rank_));
    TestMemory out = memory(count_);
    current_ = fmt::format("send and recv of {} {}", count_, name_of(dtype_));
    ranks_.run({send(in.array(), (rank_ + 1) % n_), recv(out.array(), left)});
    compare(test_input(dtype_, count_, left), out);
  }

  TestMemory memory(std::size_t count, Bytes content = {}) {
    TestMemory result(dtype_, count, salt_ % 3 == 0 ? 0 : 1 + salt_ % 7);
    ++salt_;
    result.fill(content);
    return result;
  }

  Rank next_root() { return static_cast<Rank>(++roots_ % n_); }

  void run(const Operation& operation) {
    current_ = describe(operation);
    ranks_.run(operation);
  }

  void compare(Bytes expected, Bytes got) const {
    const std::string problem = difference(dtype_, expected, got, scope_.any_order ? 2.0 * n_ : 0);
    EXPECT_EQ(problem, "") << current_ << ", rank " << rank_ << " of " << n_ << ", " << ranks_.transport();
  }

  void compare(Bytes expected, const TestMemory& got) const {
    compare(expected, got.content());
    EXPECT_TRUE(got.strip_is_untouched()) << current_ << ", rank " << rank_ << " of " << n_;
  }

  static Expectations& expectations() {
    static Expectations all;
    return all;
  }

  Communicator& ranks_;
  const Scope& scope_;
  std::uint32_t n_;
  Rank rank_;
  DType dtype_ = DType::kF32;
  std::size_t count_ = 0;
  std::size_t salt_ = 0;   // the same on all ranks at the same time
  std::size_t roots_ = 0;  // likewise
  std::string current_;
};

}  // namespace

void check_everything(Communicator& ranks, const Scope& scope) { Walk(ranks, scope).go(); }

}  // namespace trireme::collective
