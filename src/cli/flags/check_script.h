#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "trireme/schema.h"

namespace trireme::cli {

/// What a network of TorchScript has to take and give.
struct ScriptNeeds {
  data::Schema samples = {};
  std::string task = {};
  std::int64_t outputs = 0;  ///< numbers per sample, or per token; 0 = the task does not say
};

void to_json(nlohmann::json& json, const ScriptNeeds& needs);
void from_json(const nlohmann::json& json, ScriptNeeds& needs);

/// Throws InvalidArgument if `file` is not TorchScript with a forward that takes such samples. It is loaded and tried
/// in a process of its own, which can do nothing but compute (confinement.h). Throws Timeout.
void check_script(const std::string& file, const ScriptNeeds& needs);

}  // namespace trireme::cli
