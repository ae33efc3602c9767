#include "train/strategy/parameter_server.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/format.h"
#include "elastic/state_sync.h"
#include "optim/clipping.h"

namespace trireme {
namespace {

constexpr auto kRestoreTime = 600s;  // the chief reads a checkpoint; the master notices if it dies

}  // namespace

ParameterServer::ParameterServer(JobSession& job, const Model& model, ParameterServerOptions options)
    : job_(job),
      options_(std::move(options)),
      model_(model),
      buffers_(*model.module, options_.buffers),
      loss_scale_(optim::first_scale(options_.updates.loss_scale).floats()) {
  std::vector<std::size_t> elements;
  for (const NamedParameter& parameter : trainable_parameters(*model.module)) {
    if (parameter.tensor.scalar_type() != torch::kFloat32) {
      fail<InvalidArgument>("parameter '{}' is not float32: parameter servers hold float32", parameter.name);
    }
    elements.push_back(static_cast<std::size_t>(parameter.tensor.numel()));
    parameters_.push_back(parameter);
    rules_.push_back(rule_of(options_.updates, parameter));
  }
  if (parameters_.empty()) fail<InvalidArgument>("the model has no parameters to train");
  buckets_ = Buckets(elements, {.bytes = options_.bucket_bytes});
}

ParameterServer::~ParameterServer() {
  if (!adopted_) return;
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& tensor = parameters_[i].tensor;
    const bool ours = tensor.is_cpu() && tensor.data_ptr() == host_view(i).data_ptr();
    if (ours) tensor.set_data(tensor.detach().clone());
  }
}

// ---- Views.

Step ParameterServer::sync_state(const Restore& restore) {
  enter_view();
  const ps::LoadStatus load_status = client_->load_status();
  if (!load_status.complete() && job_.chief()) {
    provide(restore, /*untouched=*/load_status.assigned == 0);
  } else if (!load_status.complete()) {
    await_values();
  }
  const StepOutcome pulled = client_->pull();
  const bool must_be_whole = options_.consistency.synchronous() && options_.consistency.backup_workers == 0;
  share_non_trainable();
  at_ = {.fresh = false,
         .version = must_be_whole && !pulled.whole() ? complete_step(pulled.oldest, restore) : pulled.newest};
  job_.release_ranks();  // if they were needed
  take_parameters();
  log_info("servers_attached", "attached to the parameter servers",
           {{"view", job_.view().view},
            {"parameters", client_->layout().worker_floats()},
            {"over", client_->transports()},
            {"version", at_.version}});
  return steps_of(at_.version);
}

void ParameterServer::enter_view() {
  const cluster::ViewInfo view = job_.view();
  const cluster::MemberId member = view.workers[job_.rank()].id;
  if (client_) {
    client_->enter(view, member);
  } else {
    auto client = std::make_unique<ps::Client>(
        job_.loop(),
        ps::ClientOptions{.member = member,
                          .view = view,
                          .lanes = options_.lanes,
                          .secret = job_.place().secret,
                          .transport = job_.place().transport,
                          .bits_per_second = job_.place().bits_per_second,
                          .silent_after = job_.silent_after(),
                          .waits = &job_.waits(),
                          .spans = options_.spans,
                          .on_unreachable = [this](cluster::MemberId server) { job_.note_unreachable(server); }});
    const MutexLock lock(mutex_);
    client_ = std::move(client);
  }
  // What was heard while it connected.
  if (const std::string failure = job_.view_failure(); !failure.empty()) client_->interrupt(failure);
  if (!std::exchange(opened_, true)) {
    std::vector<ps::TableSpec> tables;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      tables.push_back({.name = parameters_[i].name,
                        .elements = static_cast<std::size_t>(parameters_[i].tensor.numel()),
                        .lr = rules_[i].lr,
                        .decay = rules_[i].decay});
    }
    if (buffers_.any()) tables.push_back({.name = "buffers", .elements = buffers_.floats(), .sums = true});
    if (scales()) {
      tables.push_back({.name = std::string(optim::kLossScaleTensor),
                        .elements = loss_scale_.size(),
                        .sums = true,
                        .scale_growth = options_.updates.loss_scale.growth_every});
    }
    client_->open(std::move(tables), {.update = options_.updates.config,
                                      .consistency = options_.consistency,
                                      .codec = options_.codec,
                                      .checkpoint_every = options_.checkpoint_every,
                                      .clip_norm = judges_itself() ? 0 : options_.updates.clip_norm,
                                      .skips = scales() && !judges_itself()});
  }
  if (!std::exchange(adopted_, true)) adopt_memory();
}

/// From now on the module's parameters lie where pulls write to, or are copied there and back.
void ParameterServer::adopt_memory() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor host = host_view(i);
    host.copy_(parameters_[i].tensor);
    if (parameters_[i].tensor.is_cpu()) parameters_[i].tensor.set_data(host);
  }
  if (buffers_.any()) buffers_.put(client_->parameters(buffer_table()));
  if (scales()) std::ranges::copy(loss_scale_, client_->parameters(scale_table()).begin());
}

/// The chief gives the servers what they are to hold: a checkpoint, or the initial values.
void ParameterServer::provide(const Restore& restore, bool untouched) {
  ps::TablesState state = client_->empty_state();
  if (at_.fresh) {
    for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
      std::ranges::copy(client_->parameters(i), state.tables[i].parameters.begin());
    }
  }
  if (scales()) std::ranges::copy(loss_scale_, state.tables[scale_table()].parameters.begin());
  const auto restored = restore.fill ? restore.fill(tensors_of(state), /*initial=*/at_.fresh) : std::nullopt;
  if (!restored && !at_.fresh) {
    fail<InvalidArgument>(
        "the parameters are lost: no server that held them is left, and there is no checkpoint to go back to; two "
        "servers keep copies for each other (--servers 2), --checkpoint-every 100 makes checkpoints");
  }
  if (!restored && untouched) return client_->assign();
  if (buffers_.any()) buffers_.put(state.tables[buffer_table()].parameters);
  if (restored) {
    const bool synchronous = options_.consistency.synchronous();
    state.newest = synchronous ? restored->version : restored->version * options_.lanes;
    state.updates = restored->updates;
    state.units = synchronous ? 0 : state.newest;
  }
  client_->restore(state);
}

void ParameterServer::await_values() {
  const Deadline deadline = Deadline::in(kRestoreTime);
  while (!client_->load_status().complete()) {
    if (deadline.passed()) fail<Timeout>("the chief brought no parameters within {:.0f} s", seconds(kRestoreTime));
    std::this_thread::sleep_for(2ms);
  }
}

/// What the servers do not hold, frozen parameters above all: workers that are new take it from one that is not, or
/// from the chief, which may have it from a checkpoint or a file. The others keep their own.
void ParameterServer::share_non_trainable() {
  std::vector<NamedParameter> state = non_trainable_state(*model_.module);
  if (buffers_.any())
    std::erase_if(state, [](const auto& piece) { return piece.name.starts_with(checkpoint::buffer_tensor("")); });
  if (state.empty() || job_.workers() == 1) return;
  if (!at_.fresh) {
    for (NamedParameter& piece : state) piece.tensor = piece.tensor.clone();
  }
  sync_to_furthest(job_.ranks(), {.fresh = at_.fresh}, state);
}

/// Some chunks have made the step after `oldest`, others not: all workers need the parameters of that version, to push
/// the step again. If nobody has them any more, all go back to a checkpoint. Every worker sees the same, because no
/// step can be completed before all have been here.
Step ParameterServer::complete_step(Step oldest, const Restore& restore) {
  log_warn("step_interrupted", "a step was interrupted halfway", {{"version", oldest}, {"own", at_.version}});
  std::vector<NamedParameter> here;
  for (std::size_t i = 0; i < parameters_.size(); ++i) here.push_back({parameters_[i].name, host_view(i)});
  if (scales()) {
    const std::span<float> scale = client_->parameters(scale_table());
    here.push_back({"loss scale", torch::from_blob(scale.data(), {static_cast<std::int64_t>(scale.size())})});
  }
  collective::Communicator& ranks = job_.ranks();
  const SyncResult synced = sync_to_furthest(ranks, at_, here);
  Step version = synced.at.version;
  if (synced.at.fresh || version != oldest) {
    if (job_.chief()) provide(restore, /*untouched=*/false);
    ranks.run(collective::barrier());
    version = client_->pull().newest;
  }
  return version;
}

torch::Tensor ParameterServer::host_view(std::size_t i) {
  return torch::from_blob(client_->parameters(static_cast<std::uint32_t>(i)).data(), parameters_[i].tensor.sizes());
}

// ---- Steps.

void ParameterServer::begin(const StepInfo& info) {
  if (options_.updates.config.ema > 0) take_parameters();  // the averages may be shown
  info_ = info;
  buckets_.begin();
  if (options_.updates.config.prunes) announce_pruning();
}

/// Servers prune by magnitudes that a worker finds, since it sees whole tensors. In bsp all workers find the same; in
/// ssp and asp it is the one that has the first lane of a step at which some are to be pruned.
void ParameterServer::announce_pruning() {
  const bool synchronous = options_.consistency.synchronous();
  if (!synchronous && info_.unit % options_.lanes != 0) return;
  const Step step = synchronous ? info_.step : info_.unit / options_.lanes;
  std::vector<double> magnitudes;
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    magnitudes.push_back(prune_below(options_.updates, rules_[i], step, client_->parameters(i)));
  }
  magnitudes.resize(scale_table() + (scales() ? 1 : 0), 0.0);
  if (std::ranges::any_of(magnitudes, [](double magnitude) { return magnitude > 0; })) {
    client_->prune_below(std::move(magnitudes));
  }
}

/// Clips this worker's own gradient, or lets it count for no samples, and pushes it.
void ParameterServer::push_own() {
  ExactSum squares;
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) add_squares(client_->gradients(i), squares);
  const bool finite = !scales() || std::isfinite(squares.value());
  const double clip_norm = finite ? options_.updates.clip_norm : 0;
  const double factor = clip_norm > 0 ? optim::clip_factor(squares, info_.samples, clip_norm, info_.step) : 1;
  for (std::uint32_t i = 0; factor < 1 && i < parameters_.size(); ++i) {
    for (float& value : client_->gradients(i)) value *= static_cast<float>(factor);
  }
  StepInfo info = info_;
  if (!finite) info.samples = 0;
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) client_->push(buckets_.members(bucket), info);
  if (scales()) client_->gradients(scale_table()).front() = finite ? 0.0f : 1.0f;
}

/// From now on this is the scale.
void ParameterServer::show_scale(std::span<const float> table) {
  const optim::LossScale before = optim::LossScale::from(loss_scale_);
  const optim::LossScale after = optim::LossScale::from(table);
  if (after.skipped > before.skipped) log_step_left_out(after, info_.step);
  optim::check_useful(after, info_.step);
  loss_scale_ = after.floats();
}

std::optional<optim::LossScale> ParameterServer::adaptive_scale() const {
  return scales() ? std::optional(optim::LossScale::from(loss_scale_)) : std::nullopt;
}

std::span<float> ParameterServer::gradient(std::size_t i) { return client_->gradients(static_cast<std::uint32_t>(i)); }

void ParameterServer::add(std::size_t i) {
  buckets_.add(i);
  const std::size_t bucket = buckets_.bucket_of(i);
  if (buckets_.full(bucket) && !judges_itself()) client_->push(buckets_.members(bucket), info_);
}

std::optional<std::span<float>> ParameterServer::buffer_sums() {
  return buffers_.any() ? buffers_.sums(client_->gradients(buffer_table())) : std::nullopt;
}

StepOutcome ParameterServer::finish() {
  if (judges_itself()) push_own();
  if (buffers_.any()) {
    const bool first = info_.lanes.first == 0 || !options_.consistency.synchronous();
    buffers_.add(client_->gradients(buffer_table()), info_.lanes.count, first);
    client_->push(std::vector{buffer_table()}, info_);
  }
  if (scales()) client_->push(std::vector{scale_table()}, info_);
  StepOutcome outcome = client_->finish();
  take_parameters();
  at_.version = outcome.newest;
  if (options_.consistency.synchronous()) {
    outcome.repeated = false;  // its step was made, with or without it
  } else {
    outcome.regroup = info_.regroup;  // each for itself
  }
  return outcome;
}

void ParameterServer::refresh() {
  client_->pull();
  take_parameters();
  if (options_.updates.config.ema > 0) show_averages();
}

/// Until the next step begins, the module has the moving averages, which are with the servers.
void ParameterServer::show_averages() {
  torch::NoGradGuard no_grad;
  const std::size_t array = *optim::average_array(options_.updates.config);
  state_ = client_->fetch();
  if (state_.updates == 0) return;  // nothing has been averaged
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& tensor = parameters_[i].tensor;
    const torch::Tensor average = torch::from_blob(state_.tables[i].state[array].data(), tensor.sizes());
    if (tensor.is_cpu()) {
      tensor.set_data(average.clone());
    } else {
      tensor.copy_(average);
    }
  }
}

/// Makes the client's parameters, which may lie elsewhere after each step, the module's, and the common buffers too.
void ParameterServer::take_parameters() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor host = host_view(i);
    torch::Tensor& tensor = parameters_[i].tensor;
    if (!tensor.is_cpu()) {
      tensor.copy_(host);
    } else if (tensor.data_ptr() != host.data_ptr()) {
      tensor.set_data(host);
    }
  }
  if (buffers_.any()) buffers_.take(client_->parameters(buffer_table()));
  if (scales()) show_scale(client_->parameters(scale_table()));
}

/// Otherwise a worker that is ahead of this one would be held back by the servers, while this one waits for the units
/// that the other has not finished.
void ParameterServer::pause() {
  if (options_.consistency.mode == ps::Consistency::Mode::kSsp) client_->leave();
}

void ParameterServer::leave() { client_->leave(); }

void ParameterServer::interrupt(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (client_) client_->interrupt(reason);
}

// ---- Checkpoints.

std::optional<TrainingState> ParameterServer::state(const CheckpointRequest& request) {
  if (!job_.chief()) return std::nullopt;
  const std::optional<Step> version = version_to_save(request);
  if (!version) return std::nullopt;
  return client_->servers_save() ? save_on_servers(*version, request) : fetch_state(*version);
}

/// In ssp and asp it is what all units together have made, if nobody is at work.
std::optional<Step> ParameterServer::version_to_save(const CheckpointRequest& request) {
  Step version = request.step;
  if (!options_.consistency.synchronous()) {
    const ps::LoadStatus load_status = client_->load_status();
    version = load_status.newest;
    if (load_status.oldest != version) {
      log_warn("checkpoint_skipped", "skipped a checkpoint: steps are in progress",
               {{"oldest", load_status.oldest}, {"newest", version}});
      return std::nullopt;
    }
  }
  return request.saved == steps_of(version) ? std::nullopt : std::optional(version);
}

std::optional<TrainingState> ParameterServer::save_on_servers(Step version, const CheckpointRequest& request) {
  const auto outcome =
      client_->save({.version = version, .attempt = request.attempt, .bytes_per_second = request.bytes_per_second});
  if (!outcome.problem.empty()) {
    log_warn("checkpoint_skipped", "skipped a checkpoint", {{"step", steps_of(version)}, {"reason", outcome.problem}});
    return std::nullopt;
  }
  return TrainingState{.at = {.fresh = false, .version = steps_of(version), .updates = outcome.updates},
                       .tensors = tensors_here(),
                       .same_everywhere = false,
                       .elsewhere = tensors_elsewhere(),
                       .other_parts = outcome.parts};
}

/// Consistent in bsp without backup workers, because no step is completed without the chief.
std::optional<TrainingState> ParameterServer::fetch_state(Step version) {
  state_ = client_->fetch();
  if (state_.oldest != version || state_.newest != version) {
    log_warn("checkpoint_skipped", "skipped a checkpoint: steps are in progress",
             {{"version", version}, {"oldest", state_.oldest}, {"newest", state_.newest}});
    return std::nullopt;
  }
  return TrainingState{.at = {.fresh = false, .version = steps_of(version), .updates = state_.updates},
                       .tensors = tensors_of(state_),
                       .same_everywhere = false};
}

std::vector<NamedParameter> ParameterServer::tensors_elsewhere() const {
  std::vector<NamedParameter> all;
  for (const auto& [name, tensor] : parameters_) {
    all.push_back({checkpoint::model_tensor(name), tensor});
    for (const std::string& state : optim::state_names(options_.updates.config)) {
      all.push_back({checkpoint::optimizer_tensor(name, state), tensor});
    }
  }
  return all;
}

/// What the servers hold as the other strategies name it, and what the chief holds itself.
std::vector<NamedParameter> ParameterServer::tensors_of(ps::TablesState& state) const {
  std::vector<NamedParameter> all;
  const std::vector<std::string> states = optim::state_names(options_.updates.config);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto sizes = parameters_[i].tensor.sizes();
    all.push_back(
        {checkpoint::model_tensor(parameters_[i].name), torch::from_blob(state.tables[i].parameters.data(), sizes)});
    for (std::size_t k = 0; k < state.tables[i].state.size(); ++k) {
      all.push_back({checkpoint::optimizer_tensor(parameters_[i].name, states[k]),
                     torch::from_blob(state.tables[i].state[k].data(), sizes)});
    }
  }
  for (NamedParameter& piece : non_trainable_state(*model_.module)) all.push_back(std::move(piece));
  if (scales()) {
    all.push_back({std::string(optim::kLossScaleTensor),
                   torch::from_blob(state.tables[scale_table()].parameters.data(), {optim::LossScale::kFloats})});
  }
  return all;
}

/// What the servers do not save.
std::vector<NamedParameter> ParameterServer::tensors_here() {
  std::vector<NamedParameter> all = non_trainable_state(*model_.module);
  if (scales()) {
    all.push_back(
        {std::string(optim::kLossScaleTensor), torch::from_blob(loss_scale_.data(), {optim::LossScale::kFloats})});
  }
  return all;
}

std::optional<HeldBytes> ParameterServer::held() const {
  if (!adopted_) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const NamedParameter& parameter : parameters_) bytes += parameter.tensor.nbytes();
  return HeldBytes{.parameters = bytes, .gradients = bytes};  // the optimizer's state is the servers'
}

std::optional<Communication> ParameterServer::communication() const {
  if (!client_) return std::nullopt;
  const ps::Client::Traffic& traffic = client_->traffic();
  return Communication{.wire_bytes = traffic.pushed_bytes + traffic.pulled_bytes,
                       .plain_bytes = traffic.gradient_bytes + traffic.pulled_bytes,
                       .encode_seconds = traffic.encode_seconds};
}

}  // namespace trireme
