#include "dist/device_gradients.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace trireme::dist {
namespace {

constexpr std::size_t kUnit = 64;  // floats: each gradient begins where memory is read in one piece

std::size_t room_for(const torch::Tensor& parameter) {
  return (static_cast<std::size_t>(parameter.numel()) + kUnit - 1) / kUnit * kUnit;
}

std::size_t room_for(const std::vector<torch::Tensor>& parameters) {
  std::size_t floats = 0;
  for (const torch::Tensor& parameter : parameters) floats += room_for(parameter);
  return floats;
}

bool on_one_device(const std::vector<torch::Tensor>& parameters) {
  return !parameters.empty() && device::runs_on(parameters.front().device()) &&
         std::ranges::all_of(parameters, [&](const torch::Tensor& each) {
           return each.device() == parameters.front().device() && each.scalar_type() == torch::kFloat32;
         });
}

std::vector<LaneRange> one_lane_each(std::uint32_t ranks) {
  std::vector<LaneRange> lanes;
  for (Rank rank = 0; rank < ranks; ++rank) lanes.push_back({.first = rank, .count = 1});
  return lanes;
}

}  // namespace

std::unique_ptr<DeviceGradients> DeviceGradients::make(Negotiation& negotiation,
                                                       const std::vector<torch::Tensor>& parameters,
                                                       std::vector<LaneRange> lanes) {
  collective::Communicator& ranks = negotiation.ranks();
  float possible = on_one_device(parameters) ? 1 : 0;
  ranks.run(collective::all_reduce(std::span<float>(&possible, 1), {.op = collective::ReduceOp::kMin}));
  if (possible == 0) return nullptr;
  std::unique_ptr<DeviceGradients> made(new DeviceGradients(negotiation, parameters, parameters.front().device()));
  if (lanes.empty()) lanes = one_lane_each(ranks.size());
  made->sums_.connect(ranks, std::move(lanes));
  // Through the host's memory they can leave during backward already: in buckets.
  if (made->sums_.engine() == "host memory") return nullptr;
  log_info("gradients_on_device", "gradients are summed in the memory of the GPU",
           {{"engine", made->sums_.engine()}, {"ranks", ranks.size()}, {"bytes", made->sums_.memory().size_bytes()}});
  return made;
}

DeviceGradients::DeviceGradients(Negotiation& negotiation, const std::vector<torch::Tensor>& parameters,
                                 torch::Device device)
    : negotiation_(negotiation), sums_(room_for(parameters), device) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  const std::span<float> memory = sums_.memory();
  all_ = torch::from_blob(memory.data(), {static_cast<std::int64_t>(memory.size())}, options);
  std::size_t at = 0;
  for (const torch::Tensor& parameter : parameters) {
    const auto keep = [held = sums_.shared_memory()](void*) {};  // a gradient may outlive us
    views_.push_back(torch::from_blob(memory.data() + at, parameter.sizes(), keep, options));
    at += room_for(parameter);
  }
  negotiation_.set_device_sum([this] {  // this rank has joined: nothing of its own
    all_.zero_();
    sums_.reduce();
  });
}

DeviceGradients::~DeviceGradients() { negotiation_.set_device_sum(nullptr); }

void DeviceGradients::reduce(collective::ReduceOp op) {
  Negotiation::Outcome outcome = negotiation_.negotiate({.kind = OpRequest::Kind::kDeviceSum,
                                                         .dtype = DType::kF32,
                                                         .op = op,
                                                         .count = static_cast<std::uint64_t>(all_.numel())},
                                                        "gradients");
  const std::uint32_t contributors = outcome.contributors();
  sums_.reduce();
  if (op == collective::ReduceOp::kAverage && contributors > 1) all_.mul_(1.0 / contributors);
}

}  // namespace trireme::dist
