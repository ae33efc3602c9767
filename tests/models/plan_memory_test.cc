// What autograd really keeps from a forward pass, counted by the allocator, beside what plan/cost/model_cost.h says.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/version.h>

#include "trireme/model.h"

#include "plan/cost/model_cost.h"

namespace trireme::plan {
namespace {

/// LibTorch's memory of the host, counted, for as long as it lives.
class CountedMemory : public c10::Allocator {
 public:
  CountedMemory() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/255); }
  ~CountedMemory() override { c10::SetCPUAllocator(before_, /*priority=*/255); }

#if TORCH_VERSION_MAJOR >= 2
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  c10::DataPtr allocate(std::size_t bytes) override {
#else
  c10::DataPtr allocate(std::size_t bytes) const override {
#endif
    constexpr std::size_t kAlignment = 64;
    void* memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    Counts& all = counts();
    const std::lock_guard lock(all.mutex);
    all.sizes[memory] = bytes;
    all.held += bytes;
    return {memory, memory, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  static double bytes() { return static_cast<double>(counts().held); }

 private:
  /// Never destroyed: LibTorch may give memory back at the very end.
  struct Counts {
    std::mutex mutex;
    std::map<void*, std::size_t> sizes;
    std::size_t held = 0;
  };
  static Counts& counts() {
    static Counts& all = *new Counts;
    return all;
  }

  static void give_back(void* memory) {
    Counts& all = counts();
    const std::lock_guard lock(all.mutex);
    const auto entry = all.sizes.find(memory);
    all.held -= entry->second;
    all.sizes.erase(entry);
    std::free(memory);
  }

  c10::Allocator* before_;
};

/// Bytes per sample that a forward pass and its loss hold until the backward.
double kept_per_sample(const Model& model, const std::function<torch::Tensor(std::int64_t)>& batch_of) {
  const auto kept = [&](std::int64_t samples) {
    const torch::Tensor batch = batch_of(samples);
    const double before = CountedMemory::bytes();
    torch::Tensor outputs = model.forward(batch);
    outputs = outputs.reshape({-1, outputs.size(-1)});
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(outputs, torch::zeros({outputs.size(0)}, torch::kInt64));
    outputs = torch::Tensor();
    return CountedMemory::bytes() - before;
  };
  return (kept(5) - kept(2)) / 3;
}

/// What the cost model says of the same, without the batch, which the caller holds.
double planned_per_sample(const ModelCost& model, bool tokens) {
  constexpr double kFloat = 4;
  double bytes = tokens ? 0 : -kFloat * model.layers.front().input;
  for (const LayerCost& layer : model.layers) {
    bytes += kFloat * (layer.input + layer.kept) + layer.kept_bytes + layer.loss_bytes;
  }
  return bytes;
}

TEST(PlanMemory, ActivationsOfImageModelsAreWhatAutogradKeeps) {
  const CountedMemory counted;
  for (const std::string name : {"resnet20", "resnet18", "resnet50", "vit-tiny"}) {
    const std::vector<std::uint64_t> shape =
        name == "resnet50" ? std::vector<std::uint64_t>{3, 96, 96} : std::vector<std::uint64_t>{3, 32, 32};
    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    const data::Schema samples = {
        {.name = "image", .shape = sizes},
        {.name = "label", .dtype = DType::kI64, .role = data::Role::kTarget, .classes = {10}}};
    const double kept = kept_per_sample(make_model(name, samples, 10), [&](std::int64_t count) {
      return torch::randn({count, sizes[0], sizes[1], sizes[2]});
    });
    const ModelInput input{.shape = shape, .classes = 10, .fused_attention = TORCH_VERSION_MAJOR >= 2};
    const double planned = planned_per_sample(model_cost(name, input), /*tokens=*/false);
    EXPECT_NEAR(planned / kept, 1, TORCH_VERSION_MAJOR >= 2 && name == "vit-tiny" ? 0.1 : 0.02) << name;
  }
}

TEST(PlanMemory, ActivationsOfLanguageModelsAreWhatAutogradKeeps) {
  constexpr std::int64_t kLength = 128;
  constexpr std::int64_t kVocabulary = 300;
  const CountedMemory counted;
  for (const std::string name : {"gpt-tiny", "gpt-10m", "lstm"}) {
    const data::Schema samples = {
        {.name = "tokens", .dtype = DType::kI32, .shape = {kLength + 1}, .classes = {kVocabulary}}};
    const double kept = kept_per_sample(make_model(name, samples, kVocabulary), [&](std::int64_t count) {
      return torch::randint(0, kVocabulary, {count, kLength}, torch::kInt32);
    });
    const ModelInput input{.length = kLength, .classes = kVocabulary, .fused_attention = TORCH_VERSION_MAJOR >= 2};
    const double planned = planned_per_sample(model_cost(name, input), /*tokens=*/true);
    EXPECT_NEAR(planned / kept, 1, TORCH_VERSION_MAJOR >= 2 ? 0.1 : 0.02) << name;
  }
}

}  // namespace
}  // namespace trireme::plan
