#pragma once

#include <string>
#include <string_view>

namespace trireme::codec {

/// How a vector of floats is written. Encoded forms are little-endian and have no header: both sides know the Spec.
///
/// | kind      | bytes for n values           | what is written                                                      |
/// |-----------|------------------------------|----------------------------------------------------------------------|
/// | `none`    | 4 n                          | the values                                                           |
/// | `fp16`    | 2 n                          | IEEE half; finite values beyond +-65504 saturate there               |
/// | `bf16`    | 2 n                          | the upper half of a float, rounded; saturates as well                |
/// | `int8`    | n + 4 per block              | per block: scale = absmax / 127, then round(value / scale)           |
/// | `1bit`    | n / 8 + 8 per block          | per block: mean of the values >= 0, mean of those below; sign bits   |
/// | `topk`    | 8 k                          | the k largest magnitudes: indices in ascending order, then values    |
/// | `randomk` | 4 k                          | k values whose indices follow from a key that all workers share      |
///
/// Two means per block are the reconstruction of 1-bit SGD (Seide et al. 2014): of all pairs of values that the signs
/// could stand for, the one with the least squared error; the single mean |x| of EF-signSGD (Karimireddy et al. 2019)
/// costs 4 bytes less per block and is never closer. Top-k and random-k with memory: Stich et al. 2018.
enum class Kind { kNone, kF16, kBF16, kInt8, kOneBit, kTopK, kRandomK };

/// A codec with its setting. Travels to servers as JSON, which is validated on arrival.
struct Spec {
  Kind kind = Kind::kNone;
  double ratio = 0.01;         ///< topk, randomk: the share of values sent, above 0 and at most 1
  bool error_feedback = true;  ///< what an encoding left out is added to the next one: see ErrorFeedback
  bool operator==(const Spec&) const = default;
};

/// Returns the codec named by `text`: none, fp16, bf16, int8, 1bit, topk:RATIO, randomk:RATIO (without a ratio: 0.01).
/// Error feedback is not part of the text and is on. Throws InvalidArgument.
Spec parse_spec(std::string_view text);
/// The inverse of `parse_spec`.
std::string to_string(const Spec& spec);

}  // namespace trireme::codec
