#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/layers.h"

#include "plan/schedule/schedule.h"

namespace trireme::parallel {

/// Cuts a network into `stages` runs of layers, so that the most expensive is as cheap as possible (plan::split_layers,
/// by Layer::cost). Throws InvalidArgument, with the most there can be, if there are not that many layers.
std::vector<LayerRange> cut_stages(const LayerList& layers, std::uint32_t stages);

/// Cuts it by hand: so many layers in each stage. Throws InvalidArgument unless each has one and together they are all.
std::vector<LayerRange> cut_stages(const LayerList& layers, const std::vector<std::size_t>& sizes);

/// Reads "3,5,4". Throws InvalidArgument.
std::vector<std::size_t> parse_stage_sizes(const std::string& text);

/// Makes the stages that `schedule` places on `rank`, in the order of the network.
std::shared_ptr<const MadeLayers> make_stages(std::shared_ptr<const LayerList> layers,
                                              const std::vector<LayerRange>& stages, const plan::Schedule& schedule,
                                              Rank rank, const LayerPlace& place = {});

}  // namespace trireme::parallel
