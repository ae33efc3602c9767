#include "dist/state.h"

#include <torch/utils.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/numbers/lanes.h"
#include "base/random.h"
#include "dist/optimizer_item.h"
#include "elastic/state_sync.h"
#include "tensor/device/host_memory.h"
#include "tensor/files/torch_checkpoint.h"

namespace trireme::dist {
namespace {

data::SamplerConfig with_lanes(data::SamplerConfig samples, const JobSession& job) {
  const cluster::JobEnvironment& place = job.place();
  const std::uint32_t workers = place.initial_workers > 0 ? place.initial_workers : place.workers;
  if (samples.lanes == 0) samples.lanes = workers;
  if (samples.lanes < workers) {
    fail<InvalidArgument>("{} lanes for {} workers: each worker needs at least one lane", samples.lanes, workers);
  }
  return samples;
}

}  // namespace

JobSession& State::Impl::session_of(World::Impl& world) {
  if (!world.job) fail<InvalidArgument>("a State needs a world that dist::init made: views are a matter of the job");
  return world.job->session();
}

State::Impl::Impl(World::Impl& world, const data::SamplerConfig& samples)
    : world_(world),
      job_(session_of(world)),
      sampler_(with_lanes(samples, job_)),
      trace_(job_, job_.place().trace_steps) {}

State::Impl::~Impl() {
  if (optimizer_ != nullptr) optimizer_->belong_to(nullptr);
}

// ---- What it consists of.

void State::Impl::take_name(const std::string& kind, const std::string& name) {
  if (in_view_ || !at_.fresh) fail<InvalidArgument>("add to a state before dist::elastic, not in its loop");
  if (!names_.insert(kind + "/" + name).second) {
    fail<InvalidArgument>("a state has one {} {}: give each a name of its own", kind,
                          name.empty() ? "without a name" : "called '" + name + "'");
  }
}

void State::Impl::add_module(const torch::nn::Module& module, const std::string& name) {
  take_name("module", name);
  if (name.empty()) main_module_ = &module;
  weights_.push_back(module_item(module, name));
  buffers_.push_back({.module = &module, .lanes = LaneBuffers(module)});
}

void State::Impl::add_optimizer(DistributedOptimizer::Impl& optimizer) {
  take_name("optimizer", "");
  if (optimizer_ != nullptr) fail<InvalidArgument>("a state has one DistributedOptimizer: it makes the steps");
  weights_.push_back(optimizer_item(
      optimizer.inner(), [&optimizer](const torch::Tensor& parameter) { return optimizer.name_of(parameter); }));
  optimizer_ = &optimizer;
  optimizer.belong_to(this);
}

void State::Impl::add_optimizer(torch::optim::Optimizer& optimizer, const std::string& name) {
  take_name("optimizer", name);
  weights_.push_back(optimizer_item(optimizer, [&optimizer, name](const torch::Tensor& parameter) {
    std::size_t number = 0;
    for (const auto& group : optimizer.param_groups()) {
      for (const torch::Tensor& other : group.params()) {
        if (other.is_same(parameter)) return fmt::format("{}{}{}", name, name.empty() ? "" : ".", number);
        ++number;
      }
    }
    return std::string();
  }));
}

void State::Impl::add_value(const std::string& name, std::unique_ptr<StateItem> item) {
  take_name("value", name);
  values_.push_back(std::move(item));
}

void State::Impl::save_every(Step steps, const CheckpointOptions& options) {
  if (steps == 0) fail<InvalidArgument>("a checkpoint after every 0 steps: leave save_every out to write none");
  checkpoints_.emplace(job_, options, steps);
}

std::vector<NamedParameter> State::Impl::tensors() const {
  std::vector<NamedParameter> all = tensors_of(weights_);
  for (NamedParameter& tensor : tensors_of(values_)) all.push_back(std::move(tensor));
  return all;
}

nlohmann::json State::Impl::describe_all() const {
  return {{"weights", describe(weights_)}, {"values", describe(values_)}};
}

std::string State::Impl::hash() const {
  Sha256 hash;
  const std::vector<std::uint8_t> described = nlohmann::json::to_msgpack(describe_all());
  hash.add(std::as_bytes(std::span(described)));
  for (const NamedParameter& tensor : tensors()) {
    const torch::Tensor host = on_host(tensor.tensor);
    hash.add(as_bytes(tensor.name));
    hash.add(bytes_of(host));
  }
  return hash.hex();
}

// ---- Views.

cluster::Plan State::Impl::plan() const {
  const data::SamplerConfig& samples = sampler_.config();
  return {.steps_per_epoch = sampler_.steps_per_epoch(),
          .batch = samples.batch,
          .lanes = samples.lanes,
          .elastic = true,
          .strategy = "own loop"};
}

void State::Impl::connect() {
  deal_ = job_.view().deal(sampler_.config().lanes);
  mine_ = deal_[job_.rank()];
  sums_ = summation_by_lane(mine_.count);
  if (optimizer_ == nullptr) return;
  optimizer_->connect(deal_);
  for (Buffers& buffers : buffers_) {
    buffers.sync.emplace(optimizer_->ranks(), *buffers.module, BufferPolicy::kAverage,
                         collective::ReduceOptions{.lanes = deal_});
  }
}

void State::Impl::enter_view() {
  collective::Communicator& ranks = world_.ranks();
  connect();
  if (at_.fresh && ranks.rank() == 0) {
    if (const auto restored = restore()) at_ = *restored;
  }
  sync();
  at_.fresh = false;
  at_.settled = true;
  in_view_ = true;
  in_step_ = false;
  agreed_.reset();
  last_due_ = at_.version;
  trace_.enter_view(at_.version);
  keep();
  log_info("group_formed", "formed a group with the other workers",
           {{"view", ranks.view()},
            {"rank", ranks.rank()},
            {"ranks", ranks.size()},
            {"over", ranks.transport()},
            {"step", at_.version}});
  if (!job_.view().save) return;
  if (!checkpoints_ || !checkpoints_->wanted()) {
    if (ranks.rank() != 0) return;
    log_warn("checkpoint_skipped", "skipped a checkpoint that was asked for",
             {{"step", at_.version}, {"reason", "this program saves none: dist::State::save_every turns them on"}});
    return;
  }
  checkpoints_->finish();
  save();
}

/// Takes the furthest state as a whole or, if that throws, not at all.
void State::Impl::sync() {
  nlohmann::json before;
  try {
    const auto take = [&](Rank root) {
      if (root != world_.ranks().rank()) before = describe_all();
      return share(root);
    };
    at_ = sync_to_furthest(world_.ranks(), at_, take).at;
  } catch (...) {
    if (!before.is_null()) prepare_all(before);
    throw;
  }
}

void State::Impl::prepare_all(const nlohmann::json& descriptions) {
  prepare(weights_, descriptions.at("weights"));
  prepare(values_, descriptions.at("values"));
}

/// On all ranks: what the root's state consists of, and then its tensors here.
std::vector<NamedParameter> State::Impl::share(Rank root) {
  collective::Communicator& ranks = world_.ranks();
  std::vector<std::uint8_t> bytes;
  if (ranks.rank() == root) bytes = nlohmann::json::to_msgpack(describe_all());
  auto size = static_cast<std::int64_t>(bytes.size());
  ranks.run(collective::broadcast(std::span(&size, 1), root));
  bytes.resize(static_cast<std::size_t>(size));
  ranks.run(collective::broadcast(collective::Array(DType::kU8, bytes.data(), bytes.size()), root));
  if (ranks.rank() != root) prepare_all(nlohmann::json::from_msgpack(bytes));
  return tensors();
}

/// What the loop goes back to if the step is not made.
void State::Impl::keep() {
  kept_values_ = StateSnapshot(values_);
  if (optimizer_ == nullptr) kept_weights_ = StateSnapshot(weights_);
  kept_at_ = at_;
}

void State::Impl::leave_view() {
  const bool had_entered = std::exchange(in_view_, false);
  message_pending_ = {};
  for (Buffers& buffers : buffers_) {
    buffers.sync.reset();
    if (in_step_) buffers.lanes.rewind();
  }
  if (optimizer_ != nullptr) optimizer_->disconnect();
  if (checkpoints_) checkpoints_->abandon();
  if (!had_entered) return;  // nothing has changed
  if (optimizer_ == nullptr) kept_weights_.restore(weights_);
  if (optimizer_ == nullptr || in_step_) {
    kept_values_.restore(values_);
    at_ = kept_at_;
  }
  in_step_ = false;
}

void State::Impl::settle() {
  at_.settled = true;
  if (optimizer_ != nullptr) keep();
}

// ---- Checkpoints.

/// What the result depends on, beside the tensors.
nlohmann::json State::Impl::describe_run() const {
  const data::SamplerConfig& samples = sampler_.config();
  nlohmann::json run{{"samples", samples.samples}, {"batch", samples.batch},
                     {"lanes", samples.lanes},     {"seed", samples.seed},
                     {"strategy", "own loop"},     {"steps_per_epoch", sampler_.steps_per_epoch()},
                     {"state", describe_all()}};
  if (main_module_ == nullptr) return run;
  if (nlohmann::json module = describe_module(*main_module_); !module.empty()) run["module"] = std::move(module);
  return run;
}

std::optional<Position> State::Impl::restore() {
  if (!checkpoints_) return std::nullopt;
  const auto restored = checkpoints_->restore([this](const nlohmann::json& meta) {
    check_same_samples(meta, describe_run());
    if (!meta.contains("state")) {
      fail<InvalidArgument>("the checkpoint was not written by a loop with a dist::State: start a run of its own");
    }
    prepare_all(meta.at("state"));
    return tensors();
  });
  return restored ? std::optional(restored->at) : std::nullopt;
}

void State::Impl::save_if_due() {
  if (!checkpoints_ || !checkpoints_->due(std::exchange(last_due_, at_.version), at_.version)) return;
  if (!saving_) return save();
  log_warn("checkpoint_skipped", "skipped a checkpoint: the previous one is still being written",
           {{"step", at_.version}});
}

void State::Impl::save() {
  const auto began = Deadline::Clock::now();
  if (checkpoints_->saved() == at_.version || !checkpoints_->may_begin(at_.version)) return;
  // Without a DistributedOptimizer each rank has its own buffers: those of the chief are saved.
  checkpoints_->write({.at = at_, .tensors = tensors(), .same_everywhere = has_optimizer()}, describe_run(),
                      std::nullopt, began);
}

void State::Impl::save_last() {
  if (!checkpoints_ || !checkpoints_->wanted()) return;
  checkpoints_->finish();
  save();
  checkpoints_->finish();
}

}  // namespace trireme::dist
