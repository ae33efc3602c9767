#include "codec/spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::codec {
namespace {

struct KindFacts {
  Kind kind;
  std::string_view name;
  bool sparse;
};

constexpr std::array kKinds = {KindFacts{Kind::kNone, "none", false},     KindFacts{Kind::kF16, "fp16", false},
                               KindFacts{Kind::kBF16, "bf16", false},     KindFacts{Kind::kInt8, "int8", false},
                               KindFacts{Kind::kOneBit, "1bit", false},   KindFacts{Kind::kTopK, "topk", true},
                               KindFacts{Kind::kRandomK, "randomk", true}};

const KindFacts& facts(Kind kind) {
  for (const KindFacts& known : kKinds) {
    if (known.kind == kind) return known;
  }
  check_failed("known codec", fmt::format("codec {}", static_cast<int>(kind)), __FILE__, __LINE__);
}

const KindFacts& facts(std::string_view name) {
  std::vector<std::string> names;
  std::string list;
  for (const KindFacts& known : kKinds) {
    if (known.name == name) return known;
    names.emplace_back(known.name);
    list += (list.empty() ? "" : ", ") + names.back() + (known.sparse ? ":RATIO" : "");
  }
  fail<InvalidArgument>("unknown codec '{}'{}; known are {}", name, did_you_mean(name, names), list);
}

double parse_ratio(std::string_view text, std::string_view whole) {
  double ratio = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail<InvalidArgument>("codec '{}': '{}' is not a number; write the share of values to send, as in '{}:0.01'", whole,
                          text, whole.substr(0, whole.find(':')));
  }
  return ratio;
}

}  // namespace

void validate(const Spec& spec) {
  const auto& [kind, name, sparse] = facts(spec.kind);
  if (sparse && !(spec.ratio > 0 && spec.ratio <= 1)) {
    fail<InvalidArgument>("codec '{}' has ratio {}, but the share of values to send must be above 0 and at most 1",
                          name, spec.ratio);
  }
}

Spec parse_spec(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto& [kind, name, sparse] = facts(text.substr(0, colon));
  Spec spec{.kind = kind};
  if (colon != std::string_view::npos) {
    if (!sparse) fail<InvalidArgument>("codec '{}': {} takes no ratio; write just '{}'", text, name, name);
    spec.ratio = parse_ratio(text.substr(colon + 1), text);
  }
  validate(spec);
  return spec;
}

std::string to_string(const Spec& spec) {
  const auto& [kind, name, sparse] = facts(spec.kind);
  return sparse ? fmt::format("{}:{}", name, spec.ratio) : std::string(name);
}

void to_json(nlohmann::json& json, const Spec& spec) {
  json = {{"kind", facts(spec.kind).name}, {"ratio", spec.ratio}, {"error_feedback", spec.error_feedback}};
}

void from_json(const nlohmann::json& json, Spec& spec) {
  spec.kind = facts(json.at("kind").get<std::string>()).kind;
  json.at("ratio").get_to(spec.ratio);
  json.at("error_feedback").get_to(spec.error_feedback);
  validate(spec);
}

bool is_sparse(const Spec& spec) { return facts(spec.kind).sparse; }

std::size_t kept_values(const Spec& spec, std::size_t count) {
  validate(spec);
  if (!is_sparse(spec) || count == 0) return count;
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    fail<InvalidArgument>("{} values at once are too many for codec '{}'; encode parts of at most 2^32 - 1", count,
                          to_string(spec));
  }
  // Slightly less than the product: 7 % of 100 is 7, though 0.07 * 100 is above that in binary.
  const double share = std::ceil(spec.ratio * static_cast<double>(count) * (1 - 1e-12));
  return std::clamp(static_cast<std::size_t>(share), std::size_t{1}, count);
}

std::size_t encoded_bytes(const Spec& spec, std::size_t count) {
  const std::size_t blocks = (count + kBlock - 1) / kBlock;
  switch (spec.kind) {
    case Kind::kNone:
      return count * sizeof(float);
    case Kind::kF16:
    case Kind::kBF16:
      return count * sizeof(std::uint16_t);
    case Kind::kInt8:
      return count + blocks * sizeof(float);
    case Kind::kOneBit:
      return (count + 7) / 8 + blocks * 2 * sizeof(float);
    case Kind::kTopK:
      return kept_values(spec, count) * (sizeof(std::uint32_t) + sizeof(float));
    case Kind::kRandomK:
      return kept_values(spec, count) * sizeof(float);
  }
  check_failed("known codec", fmt::format("codec {}", static_cast<int>(spec.kind)), __FILE__, __LINE__);
}

std::optional<DType> reducible_as(const Spec& spec) {
  switch (spec.kind) {
    case Kind::kNone:
    case Kind::kRandomK:
      return DType::kF32;
    case Kind::kF16:
      return DType::kF16;
    case Kind::kBF16:
      return DType::kBF16;
    case Kind::kInt8:
    case Kind::kOneBit:
    case Kind::kTopK:
      return std::nullopt;
  }
  return std::nullopt;
}

double error_bound(const Spec& spec, float value, float absmax) {
  const double magnitude = std::fabs(static_cast<double>(value));
  const double beyond_half = magnitude - static_cast<double>(kF16Max);
  switch (spec.kind) {
    case Kind::kNone:
      return 0;
    case Kind::kF16:
      return std::max({magnitude * 0x1p-11, 0x1p-25, beyond_half});
    case Kind::kBF16:
      return std::max(magnitude * 0x1p-8, 0x1p-134);
    case Kind::kInt8:
      return std::max(static_cast<double>(absmax) / 254, 0x1p-127) * 1.0001;
    case Kind::kOneBit:
      return static_cast<double>(absmax);
    case Kind::kTopK:
    case Kind::kRandomK:
      return magnitude;
  }
  return 0;
}

}  // namespace trireme::codec
