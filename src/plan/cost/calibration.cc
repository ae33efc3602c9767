#include "plan/cost/calibration.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme::plan {
namespace {

constexpr int kVersion = 1;  // of the text

/// Throws InvalidArgument unless it is a time or a rate that can be.
double positive(const nlohmann::json& json, const char* key) {
  const auto value = json.at(key).get<double>();
  if (!std::isfinite(value) || value < 0) fail<InvalidArgument>("{} is {}", key, value);
  return value;
}

Calibration read(const nlohmann::json& json) {
  if (json.at("version") != kVersion) fail<InvalidArgument>("it is of another version");
  Calibration calibration{.model = json.at("model"),
                          .sample = json.at("sample"),
                          .classes = json.at("classes"),
                          .precision = parse_precision(json.at("precision").get<std::string>()),
                          .threads = json.at("threads"),
                          .cores = json.at("cores"),
                          .memory = positive(json, "memory_bytes"),
                          .flops = positive(json, "flops"),
                          .fused_attention = json.at("fused_attention"),
                          .samples = json.at("samples"),
                          .layers = {},
                          .update_seconds = positive(json, "update_seconds"),
                          .copy_seconds = positive(json, "copy_seconds"),
                          .link = {positive(json, "link_bytes_per_second"), positive(json, "link_latency")}};
  for (const auto& of_samples : json.at("layers")) {
    std::vector<LayerTiming>& row = calibration.layers.emplace_back();
    for (const auto& layer : of_samples) row.push_back({layer.at(0), layer.at(1)});
    if (row.size() != calibration.layers.front().size()) fail<InvalidArgument>("layers differ in number");
  }
  const bool ascending = std::ranges::is_sorted(calibration.samples, std::less_equal<>());
  if (calibration.samples.empty() || calibration.samples.size() != calibration.layers.size() || !ascending) {
    fail<InvalidArgument>("samples and layers do not go together");
  }
  if (calibration.cores == 0 || calibration.flops == 0 || calibration.link.bytes_per_second == 0) {
    fail<InvalidArgument>("a machine without cores, flops or bandwidth");
  }
  return calibration;
}

}  // namespace

bool Calibration::times(const ModelCost& cost, Precision of) const {
  return model == cost.name && sample == cost.sample && classes == cost.input.classes && precision == of &&
         layers.front().size() == cost.layers.size();
}

LayerTiming Calibration::timing(std::size_t index, double count) const {
  if (samples.size() == 1) {
    const double share = count / samples.front();
    return {layers.front()[index].forward * share, layers.front()[index].backward * share};
  }
  const auto above = std::ranges::find_if(samples, [&](double each) { return each >= count; });
  const auto last = static_cast<std::ptrdiff_t>(samples.size()) - 1;
  const auto high = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(above - samples.begin(), 1, last));
  const double at = (count - samples[high - 1]) / (samples[high] - samples[high - 1]);
  const LayerTiming& from = layers[high - 1][index];
  const LayerTiming& to = layers[high][index];
  return {std::max(0.0, from.forward + at * (to.forward - from.forward)),
          std::max(0.0, from.backward + at * (to.backward - from.backward))};
}

std::string to_text(const Calibration& calibration) {
  nlohmann::ordered_json json{{"version", kVersion},
                              {"model", calibration.model},
                              {"sample", calibration.sample},
                              {"classes", calibration.classes},
                              {"precision", name_of(calibration.precision)},
                              {"threads", calibration.threads},
                              {"cores", calibration.cores},
                              {"memory_bytes", calibration.memory},
                              {"flops", calibration.flops},
                              {"fused_attention", calibration.fused_attention},
                              {"update_seconds", calibration.update_seconds},
                              {"copy_seconds", calibration.copy_seconds},
                              {"link_bytes_per_second", calibration.link.bytes_per_second},
                              {"link_latency", calibration.link.latency},
                              {"samples", calibration.samples},
                              {"layers", nlohmann::ordered_json::array()}};
  for (const auto& row : calibration.layers) {
    auto cells = nlohmann::ordered_json::array();
    for (const LayerTiming& layer : row) cells.push_back({layer.forward, layer.backward});
    json["layers"].push_back(std::move(cells));
  }
  return json.dump(1) + "\n";
}

Calibration parse_calibration(const std::string& text) {
  try {
    return read(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& problem) {
    fail<InvalidArgument>("no calibration: {}; measure again: trireme plan --calibrate", problem.what());
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("no calibration: {}; measure again: trireme plan --calibrate", problem.what());
  }
}

}  // namespace trireme::plan
