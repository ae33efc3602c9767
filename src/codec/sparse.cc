#include "codec/sparse.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/numbers/simd.h"
#include "base/random.h"
#include "base/read_once.h"
#include "codec/float_loops.h"

namespace trireme::codec {
namespace {

// --- top-k

/// Which magnitudes are sent: all above `magnitude`, and the first `ties` that equal it.
struct Threshold {
  std::uint32_t magnitude;
  std::size_t ties;
};

/// The 31 bits of a magnitude are three digits, the first of which holds the exponent and three more bits.
constexpr std::size_t kDigits = 2048;
constexpr std::uint32_t kFirstShift = 20;
using Counts = std::array<std::uint32_t, kDigits>;

/// Counts how often each first digit occurs. Uses four tables in turn: neighbours often have the same digit, and
/// incrementing a number whose store is still pending is slow.
void count_first_digits(std::span<const float> values, Counts& counts) {
  std::array<Counts, 4> tables{};
  const std::size_t even = values.size() / 4 * 4;
  for (std::size_t i = 0; i < even; i += 4) {
    for (std::size_t table = 0; table < 4; ++table) ++tables[table][magnitude_bits(values[i + table]) >> kFirstShift];
  }
  for (const float value : values.subspan(even)) ++tables[0][magnitude_bits(value) >> kFirstShift];
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    counts[digit] = tables[0][digit] + tables[1][digit] + tables[2][digit] + tables[3][digit];
  }
}

/// Values are checked in groups of this many, most of which can be skipped at once.
constexpr std::size_t kGroup = 16;

/// Counts how often each digit of `width` bits from `shift` up occurs in magnitudes that begin with `prefix`.
TRIREME_SIMD void count_digits(const float* values, std::size_t count, std::uint32_t prefix, std::uint32_t shift,
                               std::uint32_t width, Counts& counts) {
  counts.fill(0);
  const std::uint32_t mask = (1u << width) - 1;
  for (std::size_t begin = 0; begin < count; begin += kGroup) {
    const std::size_t end = std::min(begin + kGroup, count);
    if (end - begin == kGroup) {
      std::uint32_t found = 0;
      for (std::size_t i = begin; i < begin + kGroup; ++i) {
        found |= magnitude_bits(values[i]) >> (shift + width) == prefix ? 1u : 0u;
      }
      if (found == 0) continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t magnitude = magnitude_bits(values[i]);
      counts[magnitude >> shift & mask] += magnitude >> (shift + width) == prefix ? 1u : 0u;
    }
  }
}

/// Goes digit by digit from the top, like a radix sort that only follows the digit of the smallest magnitude sent.
Threshold find_threshold(std::span<const float> values, std::size_t kept) {
  struct Digit {
    std::uint32_t shift;
    std::uint32_t width;
  };
  constexpr std::array kPlaces = {Digit{kFirstShift, 11}, Digit{9, 11}, Digit{0, 9}};
  Counts counts;
  std::uint32_t prefix = 0;
  std::size_t wanted = kept;  // among those that begin with `prefix`
  for (const auto [shift, width] : kPlaces) {
    if (shift == kFirstShift) {
      count_first_digits(values, counts);
    } else {
      count_digits(values.data(), values.size(), prefix, shift, width, counts);
    }
    std::uint32_t digit = (1u << width) - 1;
    for (; counts[digit] < wanted; --digit) wanted -= counts[digit];
    prefix = prefix << width | digit;
    if (counts[digit] == wanted) return {prefix << shift, wanted};  // all of them are sent, whatever their other digits
  }
  return {prefix, wanted};
}

/// Values searched at a time for those to send.
constexpr std::size_t kTile = 1024;

/// Lists in `found` the indices in [begin, end), at most a tile, whose values pass `threshold`. Subtracts the ties that
/// passed from the threshold. Returns how many were found. Has no branches on single values: a processor could not
/// predict which ones pass.
TRIREME_SIMD std::size_t list_passing(const float* values, std::size_t begin, std::size_t end, Threshold& threshold,
                                      std::array<std::uint32_t, kTile>& found) {
  const auto [limit, ties] = threshold;
  std::size_t count = 0;
  std::size_t ties_left = ties;
  for (; begin < end; begin += kGroup) {
    const std::size_t group = std::min(kGroup, end - begin);
    if (group == kGroup) {
      std::uint32_t largest = 0;
      for (std::size_t i = 0; i < kGroup; ++i) largest = std::max(largest, magnitude_bits(values[begin + i]));
      if (largest < limit) continue;
    }
    for (std::size_t i = begin; i < begin + group; ++i) {
      const std::uint32_t magnitude = magnitude_bits(values[i]);
      const std::size_t tie = static_cast<std::size_t>(magnitude == limit) & static_cast<std::size_t>(ties_left != 0);
      found[count] = static_cast<std::uint32_t>(i);
      count += static_cast<std::size_t>(magnitude > limit) | tie;
      ties_left -= tie;
    }
  }
  threshold.ties = ties_left;
  return count;
}

/// Calls `use(i, index)` for the indices in `encoded`, each of which is read once: see add_top.
template <typename Use>
void for_each_sent(Bytes encoded, std::size_t kept, std::size_t count, Use use) {
  std::uint64_t allowed = 0;  // the smallest value that the next index may have
  for (std::size_t i = 0; i < kept; ++i) {
    const auto index = read_once<std::uint32_t>(encoded.subspan(i * sizeof(std::uint32_t)));
    if (index < allowed || index >= count) [[unlikely]] {
      fail<Corrupt>(
          "index {} of {} in an encoded top-k is {}, but must be from {} to {}: the bytes are damaged, or the sender "
          "encoded another vector",
          i, kept, index, allowed, count - 1);
    }
    allowed = std::uint64_t{index} + 1;
    use(i, index);
  }
}

// --- random-k

/// Calls `use(i, index)` for the indices drawn by `key`: i = 0 .. kept - 1, distinct indices below `count`.
///
/// The values are divided into `kept` contiguous runs, as equal as possible, and one is drawn from each; all indices
/// are rotated by a random offset, so that each has the same chance whatever the sizes of the runs. So indices come in
/// memory order (apart from the rotation), no set of those drawn is needed, and the cost grows with `kept`, not
/// `count`.
template <typename Use>
void for_each_drawn(std::uint64_t key, std::size_t count, std::size_t kept, Use use) {
  if (kept == 0) return;
  RandomStream random(key);
  const std::uint64_t turn = random.below(count);
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    const std::uint64_t end = (i + 1) * count / kept;  // count has at most 32 bits: no overflow
    const std::uint64_t index = begin + random.below(end - begin) + turn;
    use(i, static_cast<std::size_t>(index < count ? index : index - count));
    begin = end;
  }
}

}  // namespace

void encode_top(std::span<const float> values, std::size_t kept, MutableBytes out) {
  if (kept == 0) return;
  Threshold threshold = find_threshold(values, kept);
  std::array<std::uint32_t, kTile> found;
  MutableBytes indices = out.first(kept * sizeof(std::uint32_t));
  MutableBytes sent = out.subspan(indices.size());
  for (std::size_t begin = 0; begin < values.size(); begin += kTile) {
    const std::size_t end = std::min(begin + kTile, values.size());
    const std::size_t count = list_passing(values.data(), begin, end, threshold, found);
    for (std::size_t i = 0; i < count; ++i) {
      store_le(indices.subspan(i * sizeof(std::uint32_t)), found[i]);
      store_le(sent.subspan(i * sizeof(float)), values[found[i]]);
    }
    indices = indices.subspan(count * sizeof(std::uint32_t));
    sent = sent.subspan(count * sizeof(float));
  }
  TRIREME_CHECK(sent.empty(), "{} of {} values were not found", sent.size() / sizeof(float), kept);
}

void add_top(Bytes encoded, std::size_t kept, std::span<float> out) {
  const Bytes values = encoded.subspan(kept * sizeof(std::uint32_t));
  for_each_sent(encoded, kept, out.size(), [&](std::size_t i, std::uint32_t index) {
    out[index] += load_le<float>(values.subspan(i * sizeof(float)));
  });
}

void clear_top(Bytes encoded, std::size_t kept, std::span<float> values) {
  for_each_sent(encoded, kept, values.size(), [&](std::size_t, std::uint32_t index) { values[index] = 0; });
}

void encode_random(std::uint64_t key, std::span<const float> values, std::size_t kept, MutableBytes out) {
  for_each_drawn(key, values.size(), kept,
                 [&](std::size_t i, std::size_t index) { store_le(out.subspan(i * sizeof(float)), values[index]); });
  if (!all_finite(std::as_bytes(values))) store_le(out, std::numeric_limits<float>::quiet_NaN());
}

void add_random(std::uint64_t key, Bytes encoded, std::size_t kept, std::span<float> out) {
  for_each_drawn(key, out.size(), kept, [&](std::size_t i, std::size_t index) {
    out[index] += load_le<float>(encoded.subspan(i * sizeof(float)));
  });
}

void clear_random(std::uint64_t key, std::size_t kept, std::span<float> values) {
  for_each_drawn(key, values.size(), kept, [&](std::size_t, std::size_t index) { values[index] = 0; });
}

}  // namespace trireme::codec
