#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/layers.h"
#include "trireme/model.h"

#include "base/settings.h"

namespace trireme::models {

/// Makes a network of this name, with the settings that were given: see MakeModel.
using MakeReady = std::function<Model(const Settings& settings, const data::Schema& samples, std::int64_t outputs)>;

/// The same for one that is a list of layers.
using MakeReadyLayers =
    std::function<LayerList(const Settings& settings, const data::Schema& samples, std::int64_t outputs)>;

struct ReadyModel {
  MakeReadyLayers layers;             ///< null: it cannot be divided, and `make` makes it
  std::vector<std::string> settings;  ///< the keys it takes
  MakeReady make = {};
};

/// The networks that come with Trireme, by name.
const std::map<std::string, ReadyModel>& ready();

}  // namespace trireme::models
