#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace trireme::launch {

/// Returns `value` as YAML 1.2 that YAML 1.1 reads alike: texts are quoted wherever either could take them for
/// something else, several lines become a literal block. Ends with a newline. Objects keep their order.
std::string to_yaml(const nlohmann::ordered_json& value);

}  // namespace trireme::launch
