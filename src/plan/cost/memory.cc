#include "plan/cost/memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/numbers/lanes.h"

namespace trireme::plan {
namespace {

constexpr double kBucketFull = 1u << 20;      // parameters: Sharded's 4 MiB
constexpr std::size_t kBucketsInTransit = 3;  // as train/sharded/sharded_parameters.cc has it

}  // namespace

std::string_view name_of(Precision precision) { return precision == Precision::kFp32 ? "fp32" : "bf16"; }

Precision parse_precision(std::string_view name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "bf16") return Precision::kBf16;
  fail<InvalidArgument>("there is no precision '{}': use fp32 or bf16", name);
}

double element_bytes(Precision precision) { return precision == Precision::kFp32 ? 4 : 2; }

StateBytes state_bytes(double parameters, const StateOptions& options) {
  constexpr double kFloatBytes = 4;
  const double shards = options.shards;
  const double master = options.precision == Precision::kBf16 ? kFloatBytes : 0;  // the fp32 copy of the weights
  StateBytes bytes{.weights = parameters * element_bytes(options.precision),
                   .gradients = parameters * kFloatBytes * options.gradient_buffers,
                   .optimizer = parameters * (kFloatBytes * options.optimizer_values + master)};
  if (options.zero >= 1) bytes.optimizer /= shards;
  if (options.zero >= 2 && !options.whole_gradients) bytes.gradients /= shards;
  if (options.zero >= 3) bytes.weights /= shards;
  return bytes;
}

std::uint32_t summation_buffers(std::uint32_t micro_batches, bool any_order) {
  return any_order ? 1 : static_cast<std::uint32_t>(std::bit_width(micro_batches));
}

std::uint32_t waiting_sums(std::uint32_t lanes, std::uint32_t done) {
  std::uint32_t waiting = 0;
  bool first = true;  // the node begins with the first lane
  while (done > 0) {
    if (done >= lanes) return first ? waiting : waiting + 1;
    const std::uint32_t left = left_lanes(lanes);
    if (done < left) {
      lanes = left;
      continue;
    }
    if (!first) ++waiting;  // the left child is complete, and waits for the right one
    first = false;
    lanes -= left;
    done -= left;
  }
  return waiting;
}

bool GradientBuckets::all_at_once() const { return count <= kBucketsInTransit; }

GradientBuckets gradient_buckets(const std::vector<std::vector<std::uint64_t>>& groups) {
  std::vector<double> buckets;  // in backward order
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    bool begins = true;
    for (auto tensor = group->rbegin(); tensor != group->rend(); ++tensor) {
      if (begins || buckets.back() >= kBucketFull) buckets.push_back(0);
      buckets.back() += static_cast<double>(*tensor);
      begins = false;
    }
  }
  std::array<double, kBucketsInTransit> places{};  // each is as large as the largest bucket that takes it
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    double& place = places[i % kBucketsInTransit];
    place = std::max(place, buckets[i]);
  }
  return {.count = buckets.size(), .places = std::reduce(places.begin(), places.end())};
}

}  // namespace trireme::plan
