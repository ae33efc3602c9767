#include "cuda/launch.h"
#include "cuda/update.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

template <optim::Rule rule>
__device__ void apply(float& p, float& s0, float& s1, float g, const optim::UpdateConstants& c) {
  using optim::Rule;
  if constexpr (rule == Rule::kSgd) optim::sgd(p, g, c);
  if constexpr (rule == Rule::kMomentum) optim::momentum(p, s0, g, c);
  if constexpr (rule == Rule::kNesterov) optim::nesterov(p, s0, g, c);
  if constexpr (rule == Rule::kAdagrad) optim::adagrad(p, s0, g, c);
  if constexpr (rule == Rule::kRmsProp) optim::rmsprop(p, s0, g, c);
  if constexpr (rule == Rule::kAdam || rule == Rule::kAdamW) optim::adam(p, s0, s1, g, c);
  if constexpr (rule == Rule::kFtrl) {
    if (c.first) s0 = optim::ftrl_start(p, c.ftrl);
    optim::ftrl(p, s0, s1, g, c);
  }
}

template <optim::Rule rule, bool extras>
__global__ void __launch_bounds__(kThreads)
    update_slices(UpdateKind kind, const UpdateSlice* slices, const optim::UpdateConstants* all_constants,
                  float gradient_scale) {
  const UpdateSlice slice = slices[blockIdx.x];
  __shared__ optim::UpdateConstants c;
  if (threadIdx.x == 0) {
    c = all_constants[slice.constants];
    c.prepare.scale = gradient_scale;
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < slice.count; i += kThreads) {
    float p = slice.parameters[i];
    float s0 = kind.rule_arrays > 0 ? slice.state[0][i] : 0.0f;
    float s1 = kind.rule_arrays > 1 ? slice.state[1][i] : 0.0f;
    float pruned = 0;
    if (extras && kind.pruned_array >= 0) {
      pruned = optim::mark_small(p, slice.state[kind.pruned_array][i], c.prune_below);
      slice.state[kind.pruned_array][i] = pruned;
    }
    apply<rule>(p, s0, s1, slice.gradient[i], c);
    if (extras && pruned != 0) p = 0;
    slice.parameters[i] = p;
    if (kind.rule_arrays > 0) slice.state[0][i] = s0;
    if (kind.rule_arrays > 1) slice.state[1][i] = s1;
    if (extras && kind.average_array >= 0) {
      float& mean = slice.state[kind.average_array][i];
      mean = pruned != 0 ? 0.0f : optim::averaged(mean, p, c.average_keep, c.average_take);
    }
  }
}

template <optim::Rule rule>
void start(const UpdateKind& kind, const UpdateSlice* slices, std::size_t count,
           const optim::UpdateConstants* constants, float gradient_scale, Stream stream) {
  const bool extras = kind.average_array >= 0 || kind.pruned_array >= 0;
  launch("update the parameters", extras ? update_slices<rule, true> : update_slices<rule, false>,
         static_cast<unsigned>(count), kThreads, 0, stream, kind, slices, constants, gradient_scale);
}

}  // namespace

void update(const UpdateKind& kind, const UpdateSlice* slices, std::size_t count,
            const optim::UpdateConstants* constants, float gradient_scale, Stream stream) {
  using optim::Rule;
  if (count == 0) return;
  switch (kind.rule) {
    case Rule::kSgd:
      return start<Rule::kSgd>(kind, slices, count, constants, gradient_scale, stream);
    case Rule::kMomentum:
      return start<Rule::kMomentum>(kind, slices, count, constants, gradient_scale, stream);
    case Rule::kNesterov:
      return start<Rule::kNesterov>(kind, slices, count, constants, gradient_scale, stream);
    case Rule::kAdagrad:
      return start<Rule::kAdagrad>(kind, slices, count, constants, gradient_scale, stream);
    case Rule::kRmsProp:
      return start<Rule::kRmsProp>(kind, slices, count, constants, gradient_scale, stream);
    case Rule::kAdam:
    case Rule::kAdamW:
      return start<Rule::kAdam>(kind, slices, count, constants, gradient_scale, stream);
    case Rule::kFtrl:
      return start<Rule::kFtrl>(kind, slices, count, constants, gradient_scale, stream);
  }
}

}  // namespace trireme::cuda
