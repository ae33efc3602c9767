#pragma once

#include <vector>

#include "trireme/collective.h"
#include "trireme/layers.h"

#include "plan/schedule/schedule.h"

namespace trireme::parallel {

/// Compares what the ranks of a pipeline are about to do. A collective call. Throws InvalidArgument on all of them,
/// naming the first two that differ: in the layers of the network, their cut, the schedule, the base of initial values;
/// or that own the same parameter, by name, which no tie declares.
void check_agreement(collective::Communicator& ranks, const MadeLayers& layers, const plan::Schedule& schedule,
                     const std::vector<LayerRange>& stages, const std::vector<NamedParameter>& owned);

}  // namespace trireme::parallel
