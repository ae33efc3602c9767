#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "dist/gradient_buckets.h"
#include "dist/world.h"
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

}  // namespace

class DistributedOptimizer::Impl {
 public:
  Impl(World& world, torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
       DistributedOptimizerOptions options);

  void synchronize();
  void step();
  void zero_grad();
  torch::optim::Optimizer& inner() { return optimizer_; }
  Traffic traffic() { return channel_.ranks().traffic(); }

 private:
  struct Shared {  // with the hooks, which torch may keep longer than we live
    Impl* owner;
  };

  std::vector<torch::Tensor> agree_on(const NamedParameters& named);
  void on_gradient(std::size_t i);

  World::Impl& world_;
  Step steps_ = 0;
  torch::optim::Optimizer& optimizer_;
  DistributedOptimizerOptions options_;
  Channel channel_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::uint32_t> passes_;  // by parameter: backward passes since the last step
  bool synchronized_ = false;          // nothing was added to gradients since
  GradientBuckets buckets_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<torch::autograd::Node>> hooks_;
};

DistributedOptimizer::Impl::Impl(World& world, torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
                                 DistributedOptimizerOptions options)
    : world_(*world.impl_),
      optimizer_(optimizer),
      options_(options),
      channel_(world, "optimizer"),
      parameters_(agree_on(parameters)),
      passes_(parameters_.size(), 0),
      buckets_(channel_.negotiation(), parameters_,
               {.compression = options.compression, .op = options.op, .bucket_bytes = options.piece_bytes}),
      shared_(std::make_shared<Shared>(Shared{this})) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(after_accumulation(parameters_[i], [shared = std::weak_ptr(shared_), i] {
      if (const auto alive = shared.lock()) alive->owner->on_gradient(i);
    }));
  }
}

std::vector<torch::Tensor> DistributedOptimizer::Impl::agree_on(const NamedParameters& named) {
  if (options_.accumulate == 0) fail<InvalidArgument>("accumulate is 0: a step has at least one backward pass");
  std::vector<torch::Tensor> parameters = trainable(named, names_);
  check_covered(optimizer_, parameters);
  channel_.negotiation().negotiate({.kind = OpRequest::Kind::kBarrier}, fingerprint(names_, parameters)).contributors();
  return parameters;
}

void DistributedOptimizer::Impl::on_gradient(std::size_t i) {
  synchronized_ = false;
  if (++passes_[i] < options_.accumulate) return;
  if (passes_[i] > options_.accumulate) {
    fail<InvalidArgument>(
        "the gradient of '{}' was computed again after it had left: call step() after each {} backward passes, or set "
        "accumulate to how many there are",
        names_[i], options_.accumulate);
  }
  buckets_.add(i);
}

void DistributedOptimizer::Impl::synchronize() {
  if (synchronized_) return;
  std::ranges::fill(passes_, 0u);
  buckets_.finish();
  synchronized_ = true;
}

void DistributedOptimizer::Impl::step() {
  synchronize();
  optimizer_.step();
  synchronized_ = false;
  world_.report_step(++steps_);
}

void DistributedOptimizer::Impl::zero_grad() {
  if (buckets_.on_their_way()) {
    fail<InvalidArgument>(
        "zero_grad() between backward() and step(): gradients are on their way; call it after step()");
  }
  std::ranges::fill(passes_, 0u);
  optimizer_.zero_grad();
}

DistributedOptimizer::DistributedOptimizer(World& world, torch::optim::Optimizer& optimizer,
                                           const NamedParameters& parameters, DistributedOptimizerOptions options)
    : impl_(std::make_unique<Impl>(world, optimizer, parameters, options)) {}

DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::synchronize() { impl_->synchronize(); }

void DistributedOptimizer::step() { impl_->step(); }

void DistributedOptimizer::zero_grad() { impl_->zero_grad(); }

torch::optim::Optimizer& DistributedOptimizer::inner() { return impl_->inner(); }

Traffic DistributedOptimizer::traffic() const { return impl_->traffic(); }

}  // namespace trireme::dist
