#include "train/pipeline/stage_cut.h"

#include <charconv>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.h"
#include "plan/cost/split_layers.h"

namespace trireme::parallel {

std::vector<LayerRange> cut_stages(const LayerList& layers, std::uint32_t stages) {
  if (stages == 0 || stages > layers.size()) {
    fail<InvalidArgument>("{} layers cannot be cut into {} stages: 1 to {} are possible", layers.size(), stages,
                          layers.size());
  }
  const std::vector<std::size_t> begins = plan::split_layers(layers.costs(), stages);
  std::vector<LayerRange> ranges;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    ranges.push_back({begins[i], i + 1 < begins.size() ? begins[i + 1] : layers.size()});
  }
  return ranges;
}

std::vector<LayerRange> cut_stages(const LayerList& layers, const std::vector<std::size_t>& sizes) {
  const std::size_t sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  std::vector<LayerRange> ranges;
  for (const std::size_t size : sizes) {
    if (size == 0) fail<InvalidArgument>("a stage of no layers in {}: each needs one", fmt::join(sizes, ","));
    const std::size_t begin = ranges.empty() ? 0 : ranges.back().end;
    ranges.push_back({begin, begin + size});
  }
  if (sum != layers.size()) {
    fail<InvalidArgument>("stages of {} layers are {} together, and the network has {}", fmt::join(sizes, ","), sum,
                          layers.size());
  }
  return ranges;
}

std::vector<std::size_t> parse_stage_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::size_t size = 0;
    const auto [after, problem] = std::from_chars(at, end, size);
    if (problem != std::errc() || (after != end && *after != ',')) {
      fail<InvalidArgument>("'{}' does not say how many layers each stage has: write for example 3,5,4", text);
    }
    sizes.push_back(size);
    if (after == end) return sizes;
    at = after + 1;
  }
}

std::shared_ptr<const MadeLayers> make_stages(std::shared_ptr<const LayerList> layers,
                                              const std::vector<LayerRange>& stages, const plan::Schedule& schedule,
                                              Rank rank, const LayerPlace& place) {
  if (schedule.stages() != stages.size()) {
    fail<InvalidArgument>("a schedule of {} stages for a network that is cut into {}", schedule.stages(),
                          stages.size());
  }
  std::vector<LayerRange> here;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (schedule.rank_of_stage[stage] == rank) here.push_back(stages[stage]);
  }
  return std::make_shared<const MadeLayers>(std::move(layers), here, place);
}

}  // namespace trireme::parallel
