#include "tensor/device/device_kernels.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/numbers/lanes.h"
#include "cuda/columns.h"
#include "cuda/cross_entropy.h"
#include "cuda/layer_norm.h"
#include "cuda/sums.h"
#include "cuda/update.h"
#include "tensor/device/device_runtime.h"

namespace trireme::device {
namespace {

using runtime::stream_of;

std::optional<cuda::Type> type_of(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return cuda::Type::kFloat;
    case torch::kBFloat16:
      return cuda::Type::kBfloat16;
    case torch::kHalf:
      return cuda::Type::kHalf;
    default:
      return std::nullopt;
  }
}

bool plain(const torch::Tensor& tensor) { return runs_on(tensor.device()) && tensor.is_contiguous(); }

/// Elements are moved 16 bytes at a time.
bool aligned(const torch::Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 16 == 0; }

torch::Tensor floats_like(const torch::Tensor& tensor, std::int64_t count) {
  return torch::empty({count}, tensor.options().dtype(torch::kFloat32));
}

}  // namespace

bool runs_on(torch::Device device) { return device.type() == runtime::kDevice && runtime::present(); }

bool can_normalise(const torch::Tensor& x, const torch::Tensor& branch, torch::ScalarType type) {
  if (!plain(x) || x.scalar_type() != torch::kFloat32 || x.dim() == 0 || !aligned(x) || !type_of(type)) return false;
  if (x.size(-1) % 4 != 0 || x.size(-1) > cuda::kMostNormWidth) return false;
  return !branch.defined() ||
         (plain(branch) && branch.scalar_type() == type && branch.sizes() == x.sizes() && aligned(branch));
}

bool can_normalise(const torch::Tensor& x, const torch::Tensor& branch, const torch::Tensor& scale,
                   torch::ScalarType type) {
  return can_normalise(x, branch, type) && plain(scale) && scale.scalar_type() == torch::kFloat32 &&
         scale.numel() == x.size(-1);
}

Normed layer_norm(const torch::Tensor& x, const torch::Tensor& branch, const torch::Tensor& scale,
                  const torch::Tensor& offset, double epsilon, torch::ScalarType type) {
  const runtime::Guard guard(x.device());
  const std::int64_t width = scale.numel();
  const std::int64_t rows = x.numel() / width;
  Normed normed{.sum = branch.defined() ? torch::empty_like(x) : x,
                .out = torch::empty(x.sizes(), x.options().dtype(type)),
                .mean = floats_like(x, rows),
                .inverse = floats_like(x, rows)};
  cuda::layer_norm({.rows = rows,
                    .width = width,
                    .type = *type_of(type),
                    .x = x.data_ptr<float>(),
                    .branch = branch.defined() ? branch.data_ptr() : nullptr,
                    .scale = scale.data_ptr<float>(),
                    .offset = offset.data_ptr<float>(),
                    .epsilon = epsilon,
                    .sum = normed.sum.data_ptr<float>(),
                    .out = normed.out.data_ptr(),
                    .mean = normed.mean.data_ptr<float>(),
                    .inverse = normed.inverse.data_ptr<float>()},
                   stream_of(x.device()));
  return normed;
}

NormGradients layer_norm_backward(const torch::Tensor& of_out, const torch::Tensor& of_sum, const Normed& normed,
                                  const torch::Tensor& scale, bool with_branch) {
  const torch::Tensor& x = normed.sum;
  const runtime::Guard guard(x.device());
  const std::int64_t width = scale.numel();
  const std::int64_t rows = x.numel() / width;
  const torch::Tensor out_gradient = of_out.contiguous();
  const torch::Tensor sum_gradient = of_sum.defined() ? of_sum.contiguous() : of_sum;
  NormGradients result{.x = torch::empty_like(x),
                       .branch = with_branch ? torch::empty_like(out_gradient) : torch::Tensor(),
                       .scale = torch::empty_like(scale),
                       .offset = torch::empty_like(scale)};
  const torch::Tensor workspace = floats_like(x, static_cast<std::int64_t>(cuda::layer_norm_workspace(width)));
  cuda::layer_norm_backward({.rows = rows,
                             .width = width,
                             .type = *type_of(out_gradient.scalar_type()),
                             .of_out = out_gradient.data_ptr(),
                             .of_sum = sum_gradient.defined() ? sum_gradient.data_ptr<float>() : nullptr,
                             .sum = x.data_ptr<float>(),
                             .scale = scale.data_ptr<float>(),
                             .mean = normed.mean.data_ptr<float>(),
                             .inverse = normed.inverse.data_ptr<float>(),
                             .of_x = result.x.data_ptr<float>(),
                             .of_branch = with_branch ? result.branch.data_ptr() : nullptr,
                             .of_scale = result.scale.data_ptr<float>(),
                             .of_offset = result.offset.data_ptr<float>(),
                             .workspace = workspace.data_ptr<float>()},
                            stream_of(x.device()));
  return result;
}

bool can_compare(const torch::Tensor& logits, const torch::Tensor& targets) {
  return runs_on(logits.device()) && logits.dim() == 2 && logits.stride(1) == 1 && logits.stride(0) >= logits.size(1) &&
         type_of(logits.scalar_type()) && plain(targets) && targets.scalar_type() == torch::kInt64 &&
         targets.numel() == logits.size(0) && logits.size(0) > 0;
}

namespace {

cuda::Logits describe(const torch::Tensor& logits, const torch::Tensor& targets) {
  return {.rows = logits.size(0),
          .classes = logits.size(1),
          .stride = logits.stride(0),
          .type = *type_of(logits.scalar_type()),
          .values = logits.data_ptr(),
          .targets = targets.data_ptr<std::int64_t>()};
}

}  // namespace

Entropy cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets) {
  const runtime::Guard guard(logits.device());
  Entropy entropy{.loss = floats_like(logits, logits.size(0)), .log_sum = floats_like(logits, logits.size(0))};
  cuda::cross_entropy(describe(logits, targets), entropy.loss.data_ptr<float>(), entropy.log_sum.data_ptr<float>(),
                      stream_of(logits.device()));
  return entropy;
}

void cross_entropy_backward(torch::Tensor& logits, const torch::Tensor& targets, const torch::Tensor& log_sum,
                            const torch::Tensor& of_loss) {
  const runtime::Guard guard(logits.device());
  const torch::Tensor factor = of_loss.to(torch::kFloat32).contiguous();
  cuda::cross_entropy_backward(describe(logits, targets), log_sum.data_ptr<float>(), factor.data_ptr<float>(),
                               stream_of(logits.device()));
}

torch::Tensor cross_entropy_at_once(torch::Tensor& logits, const torch::Tensor& targets, float of_loss) {
  const runtime::Guard guard(logits.device());
  torch::Tensor loss = floats_like(logits, logits.size(0));
  cuda::cross_entropy_at_once(describe(logits, targets), of_loss, loss.data_ptr<float>(), stream_of(logits.device()));
  return loss;
}

void rescale_entropy_gradient(torch::Tensor& gradient, const torch::Tensor& targets, float assumed,
                              const torch::Tensor& of_loss) {
  const runtime::Guard guard(gradient.device());
  const torch::Tensor factor = of_loss.to(torch::kFloat32).contiguous();
  cuda::cross_entropy_rescale(describe(gradient, targets), assumed, factor.data_ptr<float>(),
                              stream_of(gradient.device()));
}

bool can_sum_columns(const torch::Tensor& matrix) {
  return plain(matrix) && matrix.dim() == 2 && matrix.size(1) % 8 == 0 && aligned(matrix) &&
         type_of(matrix.scalar_type());
}

namespace {

cuda::ColumnSums describe_columns(const torch::Tensor& matrix, const torch::Tensor& sums,
                                  const torch::Tensor& workspace) {
  return {.rows = matrix.size(0),
          .columns = matrix.size(1),
          .type = *type_of(matrix.scalar_type()),
          .values = matrix.data_ptr(),
          .sums = sums.data_ptr<float>(),
          .workspace = workspace.data_ptr<float>()};
}

}  // namespace

torch::Tensor column_sums(const torch::Tensor& matrix) {
  const runtime::Guard guard(matrix.device());
  torch::Tensor sums = floats_like(matrix, matrix.size(1));
  const torch::Tensor workspace =
      floats_like(matrix, static_cast<std::int64_t>(cuda::column_workspace(matrix.size(1))));
  cuda::column_sums(describe_columns(matrix, sums, workspace), stream_of(matrix.device()));
  return sums;
}

std::pair<torch::Tensor, torch::Tensor> gelu_backward(const torch::Tensor& gradient, const torch::Tensor& before) {
  const runtime::Guard guard(gradient.device());
  torch::Tensor sums = floats_like(gradient, gradient.size(1));
  torch::Tensor result = torch::empty_like(gradient);
  const torch::Tensor workspace =
      floats_like(gradient, static_cast<std::int64_t>(cuda::column_workspace(gradient.size(1))));
  cuda::gelu_backward(describe_columns(gradient, sums, workspace), before.data_ptr(), result.data_ptr(),
                      stream_of(gradient.device()));
  return {result, sums};
}

namespace {

class CudaUpdates final : public Updates {
 public:
  CudaUpdates(const optim::UpdateConfig& config, std::span<const UpdatePart> parts, torch::Device device)
      : device_(device) {
    const runtime::Guard guard(device);
    const auto average = optim::average_array(config);
    const auto arrays = static_cast<int>(optim::state_floats(config));
    kind_ = {.rule = config.rule,
             .rule_arrays = arrays - (average ? 1 : 0) - (config.prunes ? 1 : 0),
             .average_array = average ? static_cast<int>(*average) : -1,
             .pruned_array = config.prunes ? arrays - 1 : -1};
    std::vector<cuda::UpdateSlice> slices;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      for (std::size_t begin = 0; begin < parts[part].elements; begin += cuda::kSliceElements) {
        cuda::UpdateSlice& slice = slices.emplace_back();
        slice.parameters = parts[part].parameters + begin;
        slice.gradient = parts[part].gradient + begin;
        for (int k = 0; k < arrays; ++k) slice.state[k] = parts[part].state[k] + begin;
        slice.count =
            static_cast<std::uint32_t>(std::min<std::size_t>(cuda::kSliceElements, parts[part].elements - begin));
        slice.constants = static_cast<std::uint32_t>(part);
      }
    }
    count_ = slices.size();
    slices_ = to_device(std::as_bytes(std::span<const cuda::UpdateSlice>(slices)));
  }

  void prepare(std::span<const optim::UpdateConstants> constants) override {
    const runtime::Guard guard(device_);
    constants_ = to_device(std::as_bytes(constants));
  }

  void run(float gradient_scale) override {
    const runtime::Guard guard(device_);
    cuda::update(kind_, static_cast<const cuda::UpdateSlice*>(slices_.data_ptr()), count_,
                 static_cast<const optim::UpdateConstants*>(constants_.data_ptr()), gradient_scale, stream_of(device_));
  }

 private:
  torch::Tensor to_device(std::span<const std::byte> bytes) const {
    const torch::Tensor staged = runtime::staging(bytes.size());  // the copy out of it needs no waiting
    std::memcpy(staged.data_ptr(), bytes.data(), bytes.size());
    return staged.to(device_, torch::kUInt8, /*non_blocking=*/true, /*copy=*/true);
  }

  torch::Device device_;
  cuda::UpdateKind kind_{};
  std::size_t count_ = 0;
  torch::Tensor slices_;
  torch::Tensor constants_;
};

}  // namespace

std::unique_ptr<Updates> make_updates(const optim::UpdateConfig& config, std::span<const UpdatePart> parts,
                                      torch::Device device) {
  return std::make_unique<CudaUpdates>(config, parts, device);
}

double PendingNumber::wait() const {
  synchronize(device_);
  return on_host_.item<double>();
}

PendingNumber sum_of_squares(std::span<const float> values, torch::Device device) {
  const runtime::Guard guard(device);
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(device);
  const torch::Tensor partials = torch::empty({static_cast<std::int64_t>(cuda::kSquareBlocks)}, options);
  const torch::Tensor result = torch::empty({1}, options);
  cuda::sum_of_squares(values.data(), values.size(), partials.data_ptr<double>(), result.data_ptr<double>(),
                       stream_of(device));
  torch::Tensor on_host = runtime::staging(sizeof(double)).view(torch::kFloat64);
  on_host.copy_(result, /*non_blocking=*/true);
  return {on_host, device};
}

namespace {

class OwnMemory final : public SharedMemory {
 public:
  OwnMemory(std::size_t floats, torch::Device device) : floats_(floats) {
    const runtime::Guard guard(device);
    memory_ = static_cast<float*>(runtime::allocate(std::max<std::size_t>(floats, 1) * sizeof(float)));
  }
  ~OwnMemory() override { runtime::release(memory_); }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  std::span<float> floats() override { return {memory_, floats_}; }
  Handle handle() const override { return runtime::handle_of(memory_); }

 private:
  float* memory_ = nullptr;
  std::size_t floats_;
};

class MappedMemory final : public SharedMemory {
 public:
  MappedMemory(const Handle& handle, std::size_t floats, torch::Device device) : handle_(handle), floats_(floats) {
    const runtime::Guard guard(device);
    memory_ = static_cast<float*>(runtime::map(handle));
  }
  ~MappedMemory() override { runtime::unmap(memory_); }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::span<float> floats() override { return {memory_, floats_}; }
  Handle handle() const override { return handle_; }

 private:
  Handle handle_;
  float* memory_ = nullptr;
  std::size_t floats_;
};

/// Lets FoldOrder read the lanes of a part.
struct Part {
  LaneRange lanes;
};

}  // namespace

std::shared_ptr<SharedMemory> allocate(std::size_t floats, torch::Device device) {
  return std::make_shared<OwnMemory>(floats, device);
}

std::shared_ptr<SharedMemory> map(const SharedMemory::Handle& handle, std::size_t floats, torch::Device device) {
  return std::make_shared<MappedMemory>(handle, floats, device);
}

void sum_lanes(std::span<float* const> parts, std::span<const LaneRange> lanes, std::size_t begin, std::size_t count,
               torch::Device device) {
  TRIREME_CHECK(parts.size() == lanes.size() && parts.size() <= cuda::kMostParts, "{} parts of {} ranks", parts.size(),
                lanes.size());
  const runtime::Guard guard(device);
  cuda::LaneSums sums{.count = static_cast<std::uint32_t>(parts.size())};
  std::vector<Part> tree;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sums.parts[i] = parts[i];
    tree.push_back({lanes[i]});
  }
  const FoldOrder order(lanes.back().end(), std::span<const Part>(tree));
  std::size_t last = 0;
  order.walk([&](std::size_t part, std::size_t) { last = part; },
             [&](std::size_t, bool) { ++sums.combinations[last]; });
  cuda::sum_lanes(sums, begin, count, stream_of(device));
}

void synchronize(torch::Device device) { runtime::synchronize(device); }

void copy_to_host(std::span<const float> from, std::span<float> to, torch::Device device) {
  const runtime::Guard guard(device);
  runtime::copy(to.data(), from.data(), from.size_bytes(), device);
  synchronize(device);
}

void copy_to_device(std::span<const float> from, std::span<float> to, torch::Device device) {
  const runtime::Guard guard(device);
  runtime::copy(to.data(), from.data(), from.size_bytes(), device);
  synchronize(device);  // the caller's memory may change
}

}  // namespace trireme::device
