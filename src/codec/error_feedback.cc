#include "codec/error_feedback.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/float_loops.h"
#include "codec/sparse.h"

namespace trireme::codec {
namespace {

/// Values that go through all stages before the next ones: few enough to stay in the first-level cache.
constexpr std::size_t kFeedbackTile = 4 * kBlock;

}  // namespace

ErrorFeedback::ErrorFeedback(const Spec& spec, std::size_t count) : spec_(spec), count_(count) {
  validate(spec);
  if (!spec.error_feedback || spec.kind == Kind::kNone) return;
  residual_.resize(count);
  previous_.resize(count);
}

void ErrorFeedback::encode(std::uint64_t key, std::span<const float> values, MutableBytes out) {
  TRIREME_CHECK(values.size() == count_, "{} values for the residual of {}", values.size(), count_);
  TRIREME_CHECK(out.size() == encoded_bytes(spec_, count_), "{} values of codec {} into {} bytes", count_,
                to_string(spec_), out.size());
  can_undo_ = true;
  if (residual_.empty()) return codec::encode(spec_, key, values, out);
  if (is_sparse(spec_)) {
    encode_sparse(key, values, out, previous_);
  } else {
    encode_blocks(values, out, previous_);
  }
  residual_.swap(previous_);
}

void ErrorFeedback::encode_blocks(std::span<const float> values, MutableBytes out, std::span<float> next) const {
  constexpr std::uint64_t kNoKey = 0;
  std::array<float, kFeedbackTile> decoded;
  for (std::size_t begin = 0; begin < count_; begin += kFeedbackTile) {
    const std::size_t count = std::min(kFeedbackTile, count_ - begin);
    const auto corrected = next.subspan(begin, count);
    const auto encoded = out.subspan(encoded_bytes(spec_, begin), encoded_bytes(spec_, count));
    add(values.subspan(begin, count), std::span(residual_).subspan(begin, count), corrected);
    codec::encode(spec_, kNoKey, corrected, encoded);
    codec::decode(spec_, kNoKey, encoded, std::span(decoded).first(count));
    subtract_finite(corrected, std::span(decoded).first(count));
  }
}

void ErrorFeedback::encode_sparse(std::uint64_t key, std::span<const float> values, MutableBytes out,
                                  std::span<float> next) const {
  add(values, residual_, next);
  codec::encode(spec_, key, next, out);
  const std::size_t kept = kept_values(spec_, count_);
  if (spec_.kind == Kind::kTopK) {
    clear_top(out, kept, next);
  } else {
    clear_random(key, kept, next);
  }
  // Values that are not finite always show up among those sent, so the rest is checked only then.
  if (!all_finite(out.last(kept * sizeof(float)))) zero_unless_finite(next);
}

void ErrorFeedback::undo() {
  if (!can_undo_) return;
  residual_.swap(previous_);
  can_undo_ = false;
}

void ErrorFeedback::clear() {
  std::ranges::fill(residual_, 0.0f);
  can_undo_ = false;
}

void ErrorFeedback::restore(std::span<const float> residual) {
  if (residual.size() != residual_.size()) {
    fail<InvalidArgument>("a residual of {} values cannot go on from one of {}: it was saved by another model or codec",
                          residual_.size(), residual.size());
  }
  std::ranges::copy(residual, residual_.begin());
  can_undo_ = false;
}

}  // namespace trireme::codec
