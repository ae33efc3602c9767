#include "plan/memory.h"

#include <bit>

#include "base/error.h"

namespace trireme::plan {

std::string_view name_of(Precision precision) { return precision == Precision::kFp32 ? "fp32" : "bf16"; }

Precision parse_precision(std::string_view name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "bf16") return Precision::kBf16;
  fail<InvalidArgument>("there is no precision '{}': use fp32 or bf16", name);
}

double element_bytes(Precision precision) { return precision == Precision::kFp32 ? 4 : 2; }

StateBytes state_bytes(double parameters, const StateOptions& options) {
  constexpr double kFloatBytes = 4;
  const double shards = options.data;
  const double master = options.precision == Precision::kBf16 ? kFloatBytes : 0;  // the fp32 copy of the weights
  StateBytes bytes{.weights = parameters * element_bytes(options.precision),
                   .gradients = parameters * kFloatBytes * options.gradient_buffers,
                   .optimizer = parameters * (kFloatBytes * options.optimizer_values + master)};
  if (options.zero >= 1) bytes.optimizer /= shards;
  if (options.zero >= 2) bytes.gradients /= shards;
  if (options.zero >= 3) bytes.weights /= shards;
  return bytes;
}

std::uint32_t summation_buffers(std::uint32_t micro_batches, bool any_order) {
  return any_order ? 1 : static_cast<std::uint32_t>(std::bit_width(micro_batches));
}

}  // namespace trireme::plan
