#include "app/time_layers.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>
#include <torch/version.h>

#include "trireme/layers.h"

#include "base/error.h"
#include "models/lane_seed.h"
#include "optim/update_rule.h"
#include "tensor/autocast.h"
#include "tensor/heap.h"
#include "train/strategy/parameter_updates.h"

namespace trireme::app {
namespace {

using Clock = std::chrono::steady_clock;
using Pair = std::array<double, 2>;  // forward, backward

constexpr int kLeastTimes = 3;  // that each is measured
constexpr std::uint64_t kSeed = 1;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// What this process computed, of one thread: other programs on a busy machine are not counted. With several threads
/// it is the time that passed.
class WorkClock {
 public:
  explicit WorkClock(int threads) : clock_(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC), begin_(now()) {}

  double seconds() const { return now() - begin_; }

 private:
  double now() const {
    timespec time{};
    ::clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  clockid_t clock_;
  double begin_;
};

data::Schema schema_of(const LayerTimesRequest& request) {
  if (request.tokens) {
    return {
        {.name = "tokens", .dtype = DType::kI32, .shape = {request.shape.front() + 1}, .classes = {request.classes}}};
  }
  return {{.name = "numbers", .shape = request.shape},
          {.name = "label", .dtype = DType::kI64, .role = data::Role::kTarget, .classes = {request.classes}}};
}

torch::Tensor inputs_of(const LayerTimesRequest& request, std::int64_t samples) {
  std::vector<std::int64_t> sizes{samples};
  sizes.insert(sizes.end(), request.shape.begin(), request.shape.end());
  if (request.tokens) return torch::randint(request.classes, sizes, torch::kInt64);
  return torch::randn(sizes);
}

class LayerClock {
 public:
  explicit LayerClock(const LayerTimesRequest& request)
      : request_(request), list_(make_layers(request.model, schema_of(request), request.classes)) {
    if (!list_) fail<InvalidArgument>("model {} is not made of layers: its layers cannot be timed", request.model);
    if (list_->size() != request.like.size()) {
      fail<InvalidArgument>("model {} has {} layers, and {} were expected", request.model, list_->size(),
                            request.like.size());
    }
    std::vector<LayerRange> ranges;
    for (std::size_t i = 0; i < request.like.size(); ++i) {
      if (request.like[i] == i) ranges.push_back({i, i + 1});
    }
    made_ = std::make_unique<MadeLayers>(list_, ranges);
  }

  /// Returns [forward, backward] of every layer for so many samples, once.
  std::vector<Pair> once(std::int64_t samples) {
    std::vector<Pair> times(list_->size());
    Activations activations = list_->activations_of({inputs_of(request_, samples)});
    const LaneSeed random(kSeed);
    for (std::size_t i = 0; i < list_->size(); ++i) {
      const std::size_t like = request_.like[i];
      times[i] = like == i ? time(i, activations) : times[like];
    }
    return times;
  }

 private:
  /// Leaves in `activations` what the layer made of them.
  Pair time(std::size_t index, Activations& activations) {
    std::vector<torch::Tensor> wanted;
    for (auto& [name, tensor] : activations) {
      tensor = tensor.detach();
      if (tensor.is_floating_point()) wanted.push_back(tensor.requires_grad_());
    }
    for (const auto& [name, users] : made_->users()) {
      if (std::ranges::count(users, index) > 0) wanted.push_back(parameter_at(*made_->module(), name));
    }
    const bool last = index + 1 == list_->size();
    Pair seconds{};
    const WorkClock forward(request_.threads);
    {
      const AutocastScope precision(parse_precision(request_.precision), torch::kCPU);
      activations = made_->forward(index, std::move(activations));
    }
    torch::Tensor made = activations.at("x");
    if (last) {
      const torch::Tensor rows = made.reshape({-1, made.size(-1)}).to(torch::kFloat32);
      made = torch::nn::functional::cross_entropy(rows, torch::zeros({rows.size(0)}, torch::kInt64));
    }
    seconds[0] = forward.seconds();
    const torch::Tensor gradient = torch::ones_like(made);
    const WorkClock backward(request_.threads);
    torch::autograd::grad({made}, wanted, {gradient}, /*retain_graph=*/false, /*create_graph=*/false,
                          /*allow_unused=*/true);
    seconds[1] = backward.seconds();
    return seconds;
  }

  const LayerTimesRequest& request_;
  std::shared_ptr<const LayerList> list_;
  std::unique_ptr<MadeLayers> made_;
};

/// The middle one of each layer's times.
std::vector<Pair> middle(std::vector<std::vector<Pair>>& rounds) {
  std::vector<Pair> result(rounds.front().size());
  for (std::size_t layer = 0; layer < result.size(); ++layer) {
    for (std::size_t part = 0; part < 2; ++part) {
      std::vector<double> times;
      for (const auto& round : rounds) times.push_back(round[layer][part]);
      std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
      result[layer][part] = times[times.size() / 2];
    }
  }
  return result;
}

/// Returns the least that `work` takes of some times.
template <typename Work>
double least(const Work& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const WorkClock clock(/*threads=*/1);
    work();
    best = std::min(best, clock.seconds());
  }
  return best;
}

constexpr std::size_t kFloats = 4u << 20;  // more than caches hold

double time_update() {
  const optim::UpdateConfig config{.rule = optim::Rule::kAdam};
  std::vector<float> parameters(kFloats), gradient(kFloats, 0.1f), state(kFloats * optim::state_floats(config));
  const double seconds = least([&] {
    optim::apply_update(config, {.step = 1, .lr = 1e-3}, parameters, optim::state_at(config, state, kFloats), gradient);
  });
  return seconds / kFloats;
}

double time_copy() {
  std::vector<float> from(kFloats, 1.0f), to(kFloats);
  const double seconds = least([&] { std::memcpy(to.data(), from.data(), kFloats * sizeof(float)); });
  return seconds / (kFloats * sizeof(float));
}

}  // namespace

void time_layers(const LayerTimesRequest& request) {
  keep_freed_memory();
  torch::set_num_threads(request.threads);
  LayerClock clock(request);
  nlohmann::json result{{"samples", nlohmann::json::array()}, {"layers", nlohmann::json::array()}};
  clock.once(1);  // the first time allocates
  const Clock::time_point begin = Clock::now();
  for (std::uint64_t samples = 1; samples <= request.most_samples; samples *= 2) {
    std::vector<std::vector<Pair>> rounds;
    const Clock::time_point first = Clock::now();
    const double share =
        request.seconds * static_cast<double>(samples) / (2 * static_cast<double>(request.most_samples));
    while (rounds.size() < kLeastTimes || seconds_since(first) < share) {
      rounds.push_back(clock.once(static_cast<std::int64_t>(samples)));
    }
    result["samples"].push_back(samples);
    result["layers"].push_back(middle(rounds));
    if (seconds_since(begin) + 2 * kLeastTimes * seconds_since(first) / static_cast<double>(rounds.size()) >
        request.seconds) {
      break;
    }
  }
  result["update_seconds"] = time_update();
  result["copy_seconds"] = time_copy();
  result["fused_attention"] = TORCH_VERSION_MAJOR >= 2;
  fmt::print("{}\n", result.dump());
  std::fflush(stdout);
}

}  // namespace trireme::app
