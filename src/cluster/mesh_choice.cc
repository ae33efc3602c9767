#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "cluster/strategy_choice.h"

namespace trireme::cluster {
namespace {

constexpr std::uint32_t kMostParts = 1u << 20;
constexpr std::uint32_t kMicroBatchesPerStage = 4;  // the pipeline is then idle for a fifth of its time at most

}  // namespace

MeshChoice parse_mesh(std::string_view text) {
  MeshChoice choice;
  const auto refuse = [&](const std::string& why) {
    fail<InvalidArgument>("mesh '{}': {}; write it such as data=2,pipe=4,tensor=1", text, why);
  };
  std::set<std::string> seen;
  for (std::string_view rest = text;;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) refuse(fmt::format("'{}' has no size", item));
    const std::string name(item.substr(0, equals));
    const std::string_view number = item.substr(equals + 1);
    std::uint32_t* const size = name == "data"     ? &choice.data
                                : name == "pipe"   ? &choice.pipe
                                : name == "tensor" ? &choice.tensor
                                                   : nullptr;
    if (size == nullptr) {
      refuse(fmt::format("there is no dimension '{}'{}", name, did_you_mean(name, {"data", "pipe", "tensor"})));
    }
    if (!seen.insert(name).second) refuse(fmt::format("{} is there twice", name));
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), *size);
    if (problem != std::errc() || end != number.data() + number.size() || *size == 0 || *size > kMostParts) {
      refuse(fmt::format("'{}' is no size of {}: a whole number from 1 on", number, name));
    }
    if (item.size() == rest.size()) return choice;
    rest.remove_prefix(item.size() + 1);
  }
}

std::string to_string(const MeshChoice& choice) {
  const std::string data = choice.data == 0 ? "" : fmt::format("data={},", choice.data);
  return fmt::format("{}pipe={},tensor={}", data, choice.pipe, choice.tensor);
}

std::uint32_t data_workers(const MeshChoice& mesh, std::uint32_t workers) {
  if (!mesh.divides_model()) return workers;
  const std::uint64_t each = std::uint64_t{mesh.pipe} * mesh.tensor;
  const std::uint64_t data = mesh.data > 0 ? mesh.data : workers / each;
  if (data == 0 || data * each > workers) {
    fail<InvalidArgument>("mesh {} needs {} workers, and there are {}", to_string(mesh),
                          std::max<std::uint64_t>(1, data) * each, workers);
  }
  if (mesh.tensor_lanes % mesh.tensor != 0) {
    fail<InvalidArgument>("{} tensor lanes cannot be divided among tensor={}: choose a multiple of it",
                          mesh.tensor_lanes, mesh.tensor);
  }
  return static_cast<std::uint32_t>(data);
}

Lane usual_lanes(const MeshChoice& mesh, std::uint32_t workers, std::uint64_t batch) {
  const std::uint64_t data = std::max(1u, data_workers(mesh, workers));
  const std::uint64_t each = mesh.pipe > 1 ? std::uint64_t{kMicroBatchesPerStage} * mesh.pipe : 1;
  return static_cast<Lane>(std::max(data, std::min(batch / data * data, data * each)));
}

}  // namespace trireme::cluster
