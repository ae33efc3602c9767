#include "dist/distributed_optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "tensor/device/host_memory.h"
#include "tensor/gradient_hook.h"

namespace trireme::dist {
namespace {

std::vector<torch::Tensor> trainable(const NamedParameters& named, std::vector<std::string>& names) {
  std::vector<torch::Tensor> parameters;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : named) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.requires_grad() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    names.push_back(item.key());
    parameters.push_back(tensor);
  }
  if (parameters.empty()) fail<InvalidArgument>("none of the parameters given wants a gradient");
  return parameters;
}

void check_covered(const torch::optim::Optimizer& optimizer, const std::vector<torch::Tensor>& parameters) {
  std::unordered_set<const at::TensorImpl*> known;
  for (const torch::Tensor& parameter : parameters) known.insert(parameter.unsafeGetTensorImpl());
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad() || known.contains(parameter.unsafeGetTensorImpl())) continue;
      fail<InvalidArgument>(
          "the optimizer trains a parameter of {} elements that is not among the named parameters: each rank would "
          "train its own; give all of them, such as net->named_parameters()",
          parameter.numel());
    }
  }
}

/// Something short that is the same on two ranks if their parameters are.
std::string fingerprint(const std::vector<std::string>& names, const std::vector<torch::Tensor>& parameters) {
  Sha256 hash;
  for (std::size_t i = 0; i < names.size(); ++i) {
    hash.add(as_bytes(
        fmt::format("{} {} {};", names[i], parameters[i].numel(), c10::toString(parameters[i].scalar_type()))));
  }
  return fmt::format("{} parameters {}", names.size(), hash.hex().substr(0, 16));
}

/// The same on two ranks if the values of their parameters are.
std::uint32_t checksum(const std::vector<torch::Tensor>& parameters) {
  torch::NoGradGuard no_grad;
  std::uint32_t sum = 0;
  for (const torch::Tensor& parameter : parameters) sum = crc32c(bytes_of(on_host(parameter.contiguous())), sum);
  return sum;
}

constexpr double kTorchEpsilon = 1e-6;  // as in clip_grad_norm_

/// Added in an order that depends on nothing but their number: torch's own sums depend on its threads, of which ranks
/// may have different numbers.
template <typename Number>
double sum_of_squares(const Number* values, std::size_t count) {
  constexpr std::size_t kSums = 16;  // side by side: vectorised
  std::array<double, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      const double value = values[i + j];
      sums[j] += value * value;
    }
  }
  for (std::size_t j = 0; i < count; ++i, ++j) sums[j] += static_cast<double>(values[i]) * values[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// Norms of gradients on a GPU are computed there, all of them before the host waits for the first.
double sum_of_squares_on_device(const std::vector<torch::Tensor>& gradients) {
  if (gradients.empty()) return 0;
  std::vector<torch::Tensor> each = at::_foreach_norm(gradients, 2);
  for (torch::Tensor& norm : each) norm = norm.to(each.front().device());  // a model may lie on several
  const torch::Tensor norms = on_host(at::stack(each).to(torch::kFloat64));
  return sum_of_squares(norms.data_ptr<double>(), static_cast<std::size_t>(norms.numel()));
}

double sum_of_squares(const torch::Tensor& gradient) {
  torch::Tensor values = on_host(gradient);
  const auto count = static_cast<std::size_t>(values.numel());
  if (values.scalar_type() == torch::kFloat64) return sum_of_squares(values.data_ptr<double>(), count);
  values = values.to(torch::kFloat32);
  return sum_of_squares(values.data_ptr<float>(), count);
}

}  // namespace

DistributedOptimizer::Impl::Impl(World::Impl& world, torch::optim::Optimizer& optimizer,
                                 const NamedParameters& parameters, DistributedOptimizerOptions options)
    : world_(world),
      optimizer_(optimizer),
      options_(options),
      parameters_(trainable(parameters, names_)),
      guards_(parameters_),
      passes_(parameters_.size(), 0),
      shared_(std::make_shared<Shared>(Shared{this})) {
  if (options_.accumulate == 0) fail<InvalidArgument>("accumulate is 0: a step has at least one backward pass");
  check_covered(optimizer_, parameters_);
  ++world_.optimizers;
  if (!world_.newcomer()) connect({});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(after_accumulation(parameters_[i], [shared = std::weak_ptr(shared_), i] {
      if (const auto alive = shared.lock()) alive->owner->on_gradient(i);
    }));
  }
}

void DistributedOptimizer::Impl::connect(const std::vector<LaneRange>& deal) {
  disconnect();
  channel_.emplace(world_, "optimizer");
  check_agreement(/*compare_values=*/deal.empty());  // where there are lanes, dist::elastic gives all the same
  buckets_ = std::make_unique<GradientBuckets>(
      channel_->negotiation(), parameters_,
      GradientBucketsOptions{.compression = options_.compression,
                             .op = deal.empty() ? options_.op : ReduceOp::kSum,  // lanes have their weights
                             .bucket_bytes = options_.piece_bytes,
                             .lanes = deal});
  if (!deal.empty()) lanes_ = std::make_unique<LaneSums>(*buckets_, parameters_);
}

void DistributedOptimizer::Impl::disconnect() {
  guards_.lift();
  lanes_.reset();
  buckets_.reset();
  channel_.reset();
  synchronized_ = false;
}

void DistributedOptimizer::Impl::check_agreement(bool compare_values) {
  const std::uint32_t contributors =
      channel_->negotiation()
          .negotiate({.kind = OpRequest::Kind::kBarrier}, fingerprint(names_, parameters_))
          .contributors();
  own_start_.reset();
  if (!compare_values || contributors < channel_->ranks().size()) return;
  const std::uint32_t own = checksum(parameters_);
  std::array<std::int64_t, 2> least{std::int64_t{own}, -std::int64_t{own}};
  channel_->ranks().run(collective::all_reduce(std::span<std::int64_t>(least), {.op = collective::ReduceOp::kMin}));
  if (least[0] != -least[1]) own_start_ = own;
}

/// Values that differ are none of our business until the first step: they may be broadcast, or read from a file. Then
/// ranks that each go on from their own would train models of which none is the other's.
void DistributedOptimizer::Impl::warn_of_different_starts() {
  const std::optional<std::uint32_t> before = std::exchange(own_start_, std::nullopt);
  if (!before || world_.broadcasts || checksum(parameters_) != *before) return;
  log_warn("parameters_differ",
           "this rank's parameters are not those of the others: the ranks will train different models; call "
           "dist::broadcast_parameters(*world, *net) before the first step, or give all the same torch::manual_seed",
           {{"rank", channel_->ranks().rank()}, {"ranks", channel_->ranks().size()}});
}

std::string DistributedOptimizer::Impl::name_of(const torch::Tensor& parameter) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].is_same(parameter)) return names_[i];
  }
  return {};
}

void DistributedOptimizer::Impl::on_gradient(std::size_t i) {
  if (owner_ != nullptr && (!lanes_ || !lanes_->in_lane())) {
    fail<InvalidArgument>(
        "the gradient of '{}' was computed outside of a lane: call backward() in the loop over state.lanes(), in the "
        "loop that dist::elastic runs",
        names_[i]);
  }
  synchronized_ = false;
  if (++passes_[i] < options_.accumulate) return;
  if (passes_[i] > options_.accumulate) {
    fail<InvalidArgument>(
        "the gradient of '{}' was computed again after it had left: call step() after each {} backward passes, or set "
        "accumulate to how many there are",
        names_[i], options_.accumulate);
  }
  if (lanes_) {
    lanes_->take(i);
  } else {
    buckets_->add(i);
  }
  guards_.put(i);
}

void DistributedOptimizer::Impl::begin_lane(double weight) {
  std::ranges::fill(passes_, 0u);
  give_gradients_back();
  lanes_->begin_lane(weight);
}

void DistributedOptimizer::Impl::end_lane() {
  lanes_->end_lane();
  guards_.put_all();
}

void DistributedOptimizer::Impl::give_gradients_back() {
  const auto replaced = guards_.lift();
  if (!replaced) return;
  fail<InvalidArgument>(
      "the gradient of '{}' was replaced, or reset, while it was on its way to the other ranks: between backward() and "
      "step(), call optimizer.synchronize() first",
      names_[*replaced]);
}

void DistributedOptimizer::Impl::synchronize() {
  if (synchronized_) return;
  if (!buckets_) world_.ranks();  // says why there is nobody to talk to
  if (lanes_ && !lanes_->complete()) {
    fail<InvalidArgument>("a step needs all lanes of this rank: go through state.lanes() to its end before step()");
  }
  std::ranges::fill(passes_, 0u);
  give_gradients_back();
  buckets_->finish();
  synchronized_ = true;
}

double DistributedOptimizer::Impl::clip_norm(double largest) {
  if (!(largest > 0)) fail<InvalidArgument>("clip_norm({}): the largest norm must be above 0", largest);
  synchronize();
  torch::NoGradGuard no_grad;
  double squares = 0;
  std::vector<torch::Tensor> on_device;
  for (const torch::Tensor& parameter : parameters_) {
    if (parameter.is_cpu()) {
      squares += sum_of_squares(parameter.grad());
    } else {
      on_device.push_back(parameter.grad());
    }
  }
  squares += sum_of_squares_on_device(on_device);
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm)) {
    fail<InvalidArgument>("the norm of the gradients is {}: training has diverged; try a smaller learning rate", norm);
  }
  const double factor = largest / (norm + kTorchEpsilon);
  if (factor >= 1) return norm;
  for (const torch::Tensor& parameter : parameters_) parameter.grad().mul_(factor);
  return norm;
}

void DistributedOptimizer::Impl::step() {
  synchronize();
  if (own_start_) warn_of_different_starts();
  if (owner_ != nullptr) owner_->complete_step();
  optimizer_.step();
  synchronized_ = false;
  steps_ = owner_ != nullptr ? owner_->step_made() : steps_ + 1;
  world_.report_step(steps_);
}

void DistributedOptimizer::Impl::zero_grad() {
  if (buckets_ && buckets_->on_their_way()) {
    fail<InvalidArgument>(
        "zero_grad() between backward() and step(): gradients are on their way; call it after step()");
  }
  std::ranges::fill(passes_, 0u);
  optimizer_.zero_grad();
}

DistributedOptimizer::DistributedOptimizer(World& world, torch::optim::Optimizer& optimizer,
                                           const NamedParameters& parameters, DistributedOptimizerOptions options)
    : impl_(std::make_unique<Impl>(*world.impl_, optimizer, parameters, options)) {}

DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::synchronize() { impl_->synchronize(); }

double DistributedOptimizer::clip_norm(double largest) { return impl_->clip_norm(largest); }

void DistributedOptimizer::step() { impl_->step(); }

void DistributedOptimizer::zero_grad() { impl_->zero_grad(); }

torch::optim::Optimizer& DistributedOptimizer::inner() { return impl_->inner(); }

Traffic DistributedOptimizer::traffic() const { return impl_->traffic(); }

}  // namespace trireme::dist
