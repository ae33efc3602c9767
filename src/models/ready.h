#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/model.h"

#include "base/settings.h"

namespace trireme::models {

/// Makes a network of this name, with the settings that were given: see MakeModel.
using MakeReady = std::function<Model(const Settings& settings, const data::Schema& samples, std::int64_t outputs)>;

struct ReadyModel {
  MakeReady make;
  std::vector<std::string> settings;  ///< the keys it takes
};

/// The networks that come with Trireme, by name.
const std::map<std::string, ReadyModel>& ready();

}  // namespace trireme::models
