#include "train/sharded/sharded.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "elastic/state_sync.h"
#include "optim/clipping.h"
#include "tensor/device/host_memory.h"

namespace trireme {
namespace {

using StrategyKind = cluster::StrategyChoice::Kind;

void check_stage_3(const Model& model, const TrainOptions& options) {
  if (!model.made) {
    fail<InvalidArgument>(
        "zero:3 gathers parameters layer by layer, and this network is not made of layers (trireme/layers.h): use "
        "zero:2, which works with every network");
  }
  if (options.optimizer.prunes) {
    fail<InvalidArgument>("zero:3 does not prune: which parameters are the smallest nobody can see alone; use zero:2");
  }
  if (!options.device.is_cpu()) fail<InvalidArgument>("zero:3 works on the CPU only: on a GPU use zero:2");
}

void check_mesh(const Model& model, const TrainOptions& options) {
  if (!model.layers) {
    fail<InvalidArgument>(
        "this network is not made of layers (trireme/layers.h), so it cannot be divided: leave the mesh out, or make "
        "it of layers; a torch::nn::Sequential becomes such a network by layers_of");
  }
  if (!options.device.is_cpu() && options.mesh.tensor > 1) {
    fail<InvalidArgument>("a mesh with tensor={} works on the CPU only: on a GPU use pipe, or zero:2",
                          options.mesh.tensor);
  }
}

}  // namespace

Sharded::Sharded(JobSession& job, const Model& model, const TrainOptions& options, SpanRecorder* spans,
                 std::size_t bucket_bytes)
    : job_(job),
      options_(options),
      spans_(spans),
      bucket_bytes_(bucket_bytes),
      updates_{.config = options.optimizer,
               .groups = options.groups,
               .clip_norm = options.clip_norm,
               .prune = options.prune,
               .loss_scale = options.loss_scale},
      stage_(options.strategy.kind == StrategyKind::kZero ? static_cast<ZeroStage>(options.strategy.zero.stage)
                                                          : ZeroStage::kState),
      shards_(options.strategy.kind == StrategyKind::kZero ? options.strategy.zero.shards : 1),
      model_(model),
      loss_scale_(optim::first_scale(options.loss_scale).floats()) {
  if (stage_ == ZeroStage::kParameters) check_stage_3(model_, options_);
  if (divides_model()) check_mesh(model_, options_);
}

Sharded::~Sharded() = default;

void Sharded::interrupt(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (groups_) groups_->abort(reason);
  if (part_) part_->abort(reason);
}

std::vector<NamedParameter> Sharded::parameters_here() const {
  return part_ ? part_->parameters() : trainable_parameters(*model_.module);
}

/// By parameter: the layer that uses it; those of several layers apart.
std::vector<std::uint32_t> Sharded::layers_of_parameters() const {
  std::vector<std::uint32_t> layers;
  if (stage_ != ZeroStage::kParameters) return layers;
  auto next = static_cast<std::uint32_t>(model_.made->list().size());
  for (const NamedParameter& parameter : trainable_parameters(*model_.module)) {
    const std::vector<std::size_t>& users = model_.made->users().at(parameter.name);
    layers.push_back(users.size() == 1 ? static_cast<std::uint32_t>(users.front()) : next++);
  }
  return layers;
}

// ---- Views.

void Sharded::enter_groups() {
  collective::Communicator& world = job_.ranks();
  {
    const MutexLock lock(mutex_);
    // Where the view before broke while it formed, its part was never filled: the state is still that of an older one.
    if (parameters_ && !old_part_) old_part_ = std::move(part_);
    part_.reset();
    groups_.reset();
  }
  const plan::Mesh wanted{
      .data = std::max(1u, options_.mesh.data), .pipe = options_.mesh.pipe, .tensor = options_.mesh.tensor};
  auto groups = std::make_unique<ViewGroups>(
      world,
      ViewGroups::Options{.mesh = wanted,
                          .divides_model = divides_model(),
                          .shards = shards_,
                          .gathers = stage_ == ZeroStage::kParameters,
                          .lanes = options_.lanes,
                          .dealt = divides_model() ? std::vector<LaneRange>{} : job_.view().deal(options_.lanes)});
  for (const std::string& remark : groups->remarks()) {
    if (world.rank() == 0) log_info("workers_divided", "the workers are divided differently", {{"reason", remark}});
  }
  const LaneRange lanes = groups->lanes()[world.rank()];
  const FittedMesh mesh = groups->mesh();
  {
    const MutexLock lock(mutex_);
    groups_ = std::move(groups);
  }
  if (!divides_model()) return;
  auto part = std::make_unique<MeshPart>(world, mesh, model_, lanes, options_, spans_);
  const MutexLock lock(mutex_);
  part_ = std::move(part);
}

Step Sharded::sync_state(const Restore& restore) {
  gathers_.reset();  // of a step that was given up, as the next
  reductions_.clear();
  enter_groups();
  exchange_state(restore);
  log_info("group_formed", "formed a group with the other workers",
           {{"view", groups_->world().view()},
            {"rank", groups_->world().rank()},
            {"ranks", groups_->world().size()},
            {"mesh", plan::to_text(groups_->mesh().mesh)},
            {"shards", groups_->shards()},
            {"over", groups_->world().transport()},
            {"step", at_.version}});
  return at_.version;
}

std::unique_ptr<ShardedParameters> Sharded::make_parameters() const {
  const auto several = [](const LaneRange& lanes) { return lanes.count > 1; };
  return std::make_unique<ShardedParameters>(
      parameters_here(),
      ShardedParametersOptions{
          .updates = updates_,
          .stage = stage_,
          .rank = groups_->shard(),
          .ranks = groups_->shards(),
          .bucket_bytes = bucket_bytes_,
          .layers = layers_of_parameters(),
          .slices = part_ ? part_->slices() : std::map<std::string, ParameterSlice>{},
          .counts_whole = !part_ || part_->counts_whole(),
          .whole_gradients = groups_->shards() == 1 || std::ranges::any_of(groups_->data_lanes(), several)},
      groups_->within());
}

/// What this worker had in the view before.
StatePart Sharded::held_part() {
  if (!parameters_) return {};
  return {.parameters = parameters_.get(), .others = others_of(old_part_ ? old_part_->model() : model_)};
}

/// What is not divided: frozen parameters, buffers, the loss scale.
std::vector<NamedParameter> Sharded::others_of(const Model& model) {
  std::vector<NamedParameter> others = non_trainable_state(*model.module);
  if (updates_.loss_scale.dynamic) {
    others.push_back({std::string(optim::kLossScaleTensor),
                      torch::from_blob(loss_scale_.data(), {static_cast<std::int64_t>(loss_scale_.size())})});
  }
  return others;
}

std::optional<optim::LossScale> Sharded::adaptive_scale() const {
  return updates_.loss_scale.dynamic ? std::optional(optim::LossScale::from(loss_scale_)) : std::nullopt;
}

/// Brings the state of the step that is continued to its new owners.
void Sharded::exchange_state(const Restore& restore) {
  collective::Communicator& world = groups_->world();
  const CommitDecision decision =
      decide_commit(gather_positions(world, {.at = at_, .prepared = prepared_, .last = last_}));
  if (prepared_ && decision.finish.version == at_.version + 1) {
    log_info("step_completed", "completed a step that others have made", {{"step", decision.finish.version}});
    commit(decision.finish);
  } else if (undecided_ != nullptr) {
    undecided_->rewind();
  }
  undecided_ = nullptr;
  in_step_ = prepared_ = false;
  buffer_sync_.reset();

  std::unique_ptr<ShardedParameters> next = make_parameters();
  tables_ =
      std::make_unique<StateExchange>(world, StatePart{.parameters = next.get(), .others = others_of(model_here())},
                                      /*made_everywhere=*/divides_model());
  const bool holds = std::ranges::binary_search(decision.holders, world.rank());
  const StateOrigin origin = tables_->run(decision, holds ? held_part() : StatePart{}, restore);
  next->take_over(groups_->within());
  // All that can fail has not: from here on the state is that of the new view.
  tables_->put_others();
  parameters_ = std::move(next);
  old_part_.reset();
  at_ = {.fresh = false, .version = origin.version, .updates = origin.updates};
  last_ = {};
  if (part_) part_->share_tied_values();
  if (stage_ == ZeroStage::kParameters) gathers_.emplace(*parameters_, model_.made, groups_->gathers());
  if (groups_->data() != nullptr) {
    buffer_sync_.emplace(*groups_->data(), *model_here().module, options_.buffers,
                         collective::ReduceOptions{.lanes = groups_->data_lanes()});
  }
  overflow_.assign(parameters_->size(), {});
  reductions_.resize(parameters_->layout().buckets());
}

// ---- Steps.

/// The others gather layers for something that this worker does not have.
void Sharded::skip_pass() {
  if (gathers_) gathers_->skip_pass(/*backward=*/true);
}

Lane Sharded::most_lanes() const {
  if (!gathers_) return 0;
  return std::ranges::max(groups_->data_lanes(), {}, &LaneRange::count).count;
}

std::optional<std::span<float>> Sharded::buffer_sums() { return buffer_sync_ ? buffer_sync_->sums() : std::nullopt; }

void Sharded::begin(const StepInfo& info) {
  info_ = info;
  if (gathers_) gathers_->drop();
  if (parameters_->show_own(groups_->within()) && part_) part_->share_tied_values();
  const ShardLayout& layout = parameters_->layout();
  missing_.clear();
  for (std::size_t bucket = 0; bucket < layout.buckets(); ++bucket) {
    missing_.push_back(layout.members(bucket).size());
    reductions_[bucket].reset();
  }
  started_ = across_ = 0;
  in_step_ = true;
}

/// With all sums here, the others may have made the step: the next view tells.
void Sharded::give_up(StepComputer& computer) {
  if (prepared_) {
    undecided_ = &computer;
  } else if (in_step_) {
    computer.rewind();
  }
}

std::span<float> Sharded::gradient(std::size_t i) {
  const std::size_t bucket = parameters_->layout().bucket_of(i);
  const std::span<float> place = parameters_->gradient(i);
  const std::size_t places = parameters_->gradient_places();
  if (bucket < places) return place;
  // The place was another bucket's. Where that has not left yet, because one of its parameters takes no part in this
  // lane, the gradient waits elsewhere.
  if (bucket - places < started_ && overflow_[i].empty()) {
    await_bucket(bucket - places);
    return place;
  }
  overflow_[i].resize(place.size());
  return overflow_[i];
}

void Sharded::add(std::size_t i) {
  const ShardLayout& layout = parameters_->layout();
  const std::size_t of = layout.bucket_of(i);
  TRIREME_CHECK(missing_[of] > 0, "gradient {} was added twice", i);
  --missing_[of];
  // In the order of buckets, not of their completion: that may differ between workers.
  for (; started_ < layout.buckets() && missing_[started_] == 0; ++started_) start(started_);
  start_across();
}

void Sharded::start(std::size_t bucket) {
  const ShardLayout& layout = parameters_->layout();
  if (bucket >= parameters_->gradient_places()) await_bucket(bucket - parameters_->gradient_places());
  for (const std::uint32_t i : layout.members(bucket)) {
    if (overflow_[i].empty()) continue;
    std::ranges::copy(overflow_[i], parameters_->gradient(i).begin());
    overflow_[i] = {};
  }
  Reduction& reduction = reductions_[bucket].emplace();
  if (groups_->within() == nullptr) return;
  collective::Operation operation = collective::reduce_scatter(
      std::span<const float>(parameters_->bucket_gradients(bucket)), parameters_->owned_gradients(bucket),
      {.lanes = groups_->within_lanes()}, layout.counts(bucket));
  operation.label = fmt::format("bucket {}", bucket);
  reduction.within = collective::PendingOperation(*groups_->within(), std::move(operation));
}

/// Lets sums of a shard group that are there go on to the other groups, in the order of buckets.
void Sharded::start_across() {
  while (across_ < started_ && reductions_[across_]->within.poll()) send_across(across_);
}

void Sharded::send_across(std::size_t bucket) {
  TRIREME_CHECK(bucket == across_);
  Reduction& reduction = *reductions_[bucket];
  reduction.within.wait();
  ++across_;
  if (groups_->across() == nullptr) return;
  collective::Operation operation =
      collective::all_reduce(parameters_->owned_gradients(bucket), {.lanes = groups_->across_lanes()});
  operation.label = fmt::format("bucket {} across", bucket);
  reduction.across = collective::PendingOperation(*groups_->across(), std::move(operation));
}

void Sharded::await_bucket(std::size_t bucket) {
  while (across_ <= bucket) send_across(across_);
  reductions_[bucket]->across.wait();
}

void Sharded::await_sums() {
  const ScopedSpan span(spans_, "wait", info_.step);
  if (buffer_sync_) buffer_sync_->start();
  for (std::size_t bucket = 0; bucket < started_; ++bucket) await_bucket(bucket);
  if (buffer_sync_) buffer_sync_->wait();
}

StepOutcome Sharded::finish() {
  TRIREME_CHECK(started_ == reductions_.size(), "{} of {} buckets were filled", started_, reductions_.size());
  if (gathers_) gathers_->drop();  // the values are about to change
  await_sums();
  prepared_ = true;
  const bool clips = updates_.clip_norm > 0;
  CommitVote vote{.samples = !part_ || part_->counts_samples() ? info_.samples : 0,
                  .stop = info_.stop,
                  .regroup = info_.regroup,
                  .finite = !updates_.loss_scale.dynamic || parameters_->gradients_are_finite()};
  if (clips && groups_->group() == 0) parameters_->add_squares_to(vote.squares);  // the other groups have the same sums
  const CommitVote all = gather_votes(groups_->world(), vote, clips);
  const bool any = all.samples > 0;  // else an empty last batch: a step, but nothing to learn from it
  const bool updated = any && all.finite;
  double scale = 0;
  if (updated) {
    const double factor = clips ? optim::clip_factor(all.squares, all.samples, updates_.clip_norm, info_.step) : 1;
    scale = factor / all.samples;
  }
  // From here on nothing depends on anybody else: the step is made, or (above) it is not.
  {
    const ScopedSpan span(spans_, "update", info_.step);
    commit({.version = at_.version + 1,
            .updates = at_.updates + (updated ? 1 : 0),
            .lr = info_.lr,
            .gradient_scale = scale,
            .left_out = any && !updated});
  }
  share_parameters();
  return {.oldest = at_.version, .newest = at_.version, .stop = all.stop, .regroup = all.regroup};
}

void Sharded::commit(const CommitInput& input) {
  if (input.updates_parameters()) {
    parameters_->update({.step = input.updates, .lr = input.lr, .gradient_scale = input.gradient_scale},
                        input.version - 1);
  }
  if (updates_.loss_scale.dynamic && (input.updates_parameters() || input.left_out)) {
    const optim::LossScale after =
        optim::after_step(optim::LossScale::from(loss_scale_), !input.left_out, updates_.loss_scale.growth_every);
    if (input.left_out) log_step_left_out(after, input.version - 1);
    optim::check_useful(after, input.version - 1);
    loss_scale_ = after.floats();
  }
  if (buffer_sync_) buffer_sync_->apply();
  at_.version = input.version;
  at_.updates = input.updates;
  last_ = input;
  in_step_ = prepared_ = false;
}

/// All who compute with what is owned here get it.
void Sharded::share_parameters() {
  const ScopedSpan span(spans_, "gather", info_.step);
  parameters_->gather(groups_->within());
  if (part_) part_->share_tied_values();
}

// ---- Evaluation, and the end.

void Sharded::refresh() {
  if (!parameters_->show_averages(groups_->within())) return;
  if (gathers_) gathers_->drop();
  if (part_) part_->share_tied_values();
}

void Sharded::place_evaluation(EvaluationPlace& place) {
  if (gathers_) place.skip = [this] { gathers_->skip_pass(/*backward=*/false); };
  if (part_) part_->place_evaluation(place);
}

void Sharded::leave() {
  groups_->world().run(collective::barrier());  // somebody may still read this worker's memory
  refresh();
}

std::optional<Model> Sharded::collect() {
  if (gathers_) gathers_->gather_all(/*keep=*/job_.chief());
  if (!part_) return std::nullopt;
  const bool here = model_.module && !model_.module->parameters().empty();
  const Model whole = !job_.chief() || here ? model_ : whole_model(model_.layers);
  tables_->collect(*parameters_, others_of(part_->model()), whole);
  return whole;
}

// ---- Checkpoints.

std::optional<TrainingState> Sharded::state(const CheckpointRequest& request) {
  if (request.saved == at_.version) return std::nullopt;
  TrainingState state{.at = at_, .tensors = {}};
  state.sharded = tables_->to_write(*parameters_, others_of(model_here()));
  return state;
}

std::optional<Communication> Sharded::communication() const {
  if (!groups_) return std::nullopt;
  Communication result{.wire_bytes = groups_->wire_bytes()};
  const std::uint64_t gradient_bytes = parameters_ ? parameters_->layout().all_floats() * sizeof(float) : 0;
  const std::uint64_t ranks = groups_->mesh().mesh.data;
  result.plain_bytes = at_.version * gradient_bytes * 2 * (ranks - 1) / ranks;
  return result;
}

std::optional<HeldBytes> Sharded::held() const {
  if (!parameters_) return std::nullopt;
  HeldBytes held = parameters_->held();
  if (gathers_) held.in_transit += gathers_->most_bytes();
  return held;
}

}  // namespace trireme
