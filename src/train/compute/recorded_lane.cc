#include "train/compute/recorded_lane.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "train/compute/tensor_batch.h"

namespace trireme {
namespace {

constexpr int kAsUsual = 3;                // times that a lane is computed before it is recorded
constexpr std::size_t kMostRecorded = 64;  // lanes of one worker, and shapes of them

}  // namespace

struct RecordedLanes::Lane {
  int computed = 0;
  std::unique_ptr<device::WorkGraph> graph;
  std::vector<Batch> samples;          // what the graph reads, by part
  std::vector<ComputedPart> results;   // what it writes
  std::vector<std::size_t> completed;  // the parameters, in the order in which their gradients were complete
};

RecordedLanes::RecordedLanes(torch::Device device, bool steady)
    : device_(device), on_(steady && device::can_record(device)) {}

RecordedLanes::~RecordedLanes() = default;

std::vector<ComputedPart> RecordedLanes::compute(const Key& key, const data::Item& item,
                                                 const std::vector<SampleRange>& ranges, const Compute& compute,
                                                 const Ready& ready) {
  if (!on_) return compute(to_device(item, ranges), ready);
  auto found = std::ranges::find(lanes_, key, &std::pair<Key, std::unique_ptr<Lane>>::first);
  if (found == lanes_.end()) {
    if (lanes_.size() == kMostRecorded) lanes_.erase(lanes_.begin());
    lanes_.emplace_back(key, std::make_unique<Lane>());
    found = std::prev(lanes_.end());
  }
  Lane& lane = *found->second;
  if (!lane.graph && lane.computed < kAsUsual) {
    ++lane.computed;
    RandomWatch random(device_);
    auto results = compute(to_device(item, ranges), ready);
    if (random.drawn()) give_up("the model draws random numbers (dropout)");
    return results;
  }
  if (!lane.graph) {
    lane.samples = to_device(item, ranges);
    if (!record(lane, compute)) return this->compute(key, item, ranges, compute, ready);
  } else {
    for (std::size_t part = 0; part < ranges.size(); ++part) copy_samples(item.batch, ranges[part], lane.samples[part]);
  }
  lane.graph->replay();
  for (const std::size_t parameter : lane.completed) ready(parameter);
  return lane.results;
}

std::vector<Batch> RecordedLanes::to_device(const data::Item& item, const std::vector<SampleRange>& ranges) const {
  std::vector<Batch> samples;
  for (const SampleRange range : ranges) samples.push_back(to_tensors(item.batch, range, device_));
  return samples;
}

bool RecordedLanes::record(Lane& lane, const Compute& compute) {
  const device::WorkGraph* beside = nullptr;
  for (const auto& [key, other] : lanes_) {
    if (other->graph) beside = other->graph.get();
  }
  try {
    const WithoutSeeds seeds;
    lane.graph = device::record(device_, beside, [&] {
      lane.results = compute(lane.samples, [&](std::size_t parameter) { lane.completed.push_back(parameter); });
    });
  } catch (const std::exception& problem) {
    give_up(problem.what());
    return false;
  }
  if (beside == nullptr) {
    log_info("step_recorded", "starts the work of a step as a whole from now on (a CUDA graph)",
             {{"lanes", lanes_.size()}});
  }
  return true;
}

void RecordedLanes::give_up(const std::string& reason) {
  log_info("step_not_recorded", "starts the work of a step kernel by kernel", {{"reason", reason}});
  on_ = false;
  lanes_.clear();
}

}  // namespace trireme
