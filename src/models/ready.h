#pragma once

#include <map>
#include <string>

#include "trireme/model.h"

namespace trireme::models {

/// The networks that come with Trireme, by the names that `--model` takes.
std::map<std::string, MakeModel> ready();

}  // namespace trireme::models
