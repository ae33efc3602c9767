#include "train/strategy/all_reduce.h"

#include <torch/cuda.h>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "tensor/device/host_memory.h"
#include "train/strategy/host_parameters.h"

namespace trireme {
namespace {

constexpr std::size_t kLineFloats = 16;    // buckets begin on a cache line
constexpr int kCatchUpTries = 3;           // each is a copy of all the state, made for nothing if the view ends
constexpr auto kCatchUpWithin = 30s;       // for the last step or two, while the others wait
constexpr double kMostSamples = 1u << 24;  // up to here a float counts exactly

std::size_t whole_lines(std::size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

std::unique_ptr<OwnParameters> make_parameters(const torch::nn::Module& module, const AllReduceOptions& options) {
  if (options.codec.kind == codec::Kind::kNone) return make_own_parameters(module, options.updates);
  return std::make_unique<HostParameters>(module, options.updates);
}

}  // namespace

AllReduce::AllReduce(JobSession& job, const Model& model, AllReduceOptions options)
    : job_(job),
      options_(std::move(options)),
      model_(model),
      parameters_(make_parameters(*model.module, options_)),
      buckets_(parameters_->elements(), {.bytes = options_.bucket_bytes}),
      learners_(job.endpoint(), job.place().bits_per_second) {
  if (!parameters_->on_device()) return;
  device_sums_.emplace(bucket_floats(), parameters_->device());
  lay_out(device_sums_->memory());
}

// ---- Learners: workers that are about to take part.

void AllReduce::catch_up() {
  for (int tries = 0; tries < kCatchUpTries && job_.learner(); ++tries) {
    if (try_to_catch_up() || !job_.refresh_view()) return;
  }
}

/// Follows one of the members until hardly anything is missing. False if it ends before.
bool AllReduce::try_to_catch_up() {
  const cluster::ViewInfo view = job_.view();
  const std::size_t members = view.workers.size() - 1;
  const auto source = static_cast<Rank>(view.workers.back().id % members);  // not all learners the same
  try {
    const net::Address& address = view.workers[source].address;
    const collective::LinkName name{.view = view.view,
                                    .group = "",
                                    .from = static_cast<Rank>(view.workers.back().id),
                                    .to = source,
                                    .purpose = collective::Purpose::kLearner};
    const Deadline deadline = Deadline::in(10s);
    net::RawStream stream(job_.endpoint().connect(address, name, net::raw_transport(job_.place().transport), deadline),
                          net::RawStream::Side::kConnected, deadline);
    auto catch_up = std::make_unique<CatchUpClient>(std::move(stream), catch_up_options());
    const MutexLock lock(mutex_);
    catch_up_ = std::move(catch_up);
  } catch (const Error& problem) {
    log_info("catch_up_failed", "cannot catch up with the job yet", {{"reason", problem.what()}});
    return false;
  }
  if (const std::string known = job_.failure(); !known.empty()) fail<PeerLost>("{}", known);
  return catch_up_->wait_until_near();
}

CatchUpClientOptions AllReduce::catch_up_options() {
  CatchUpClientOptions options;
  for (const NamedParameter& piece : tensors()) options.state.push_back(piece.tensor);
  for (const std::size_t elements : parameters_->elements()) options.change_bytes += elements * sizeof(float);
  for (const torch::Tensor& buffer : model_.module->buffers()) options.change_bytes += buffer.nbytes();
  options.on_state = [this] { parameters_->take_state(); };
  options.on_change = [this](const StepChange& change, Bytes bytes) { repeat(change, bytes); };
  return options;
}

/// Makes a step that the others have made.
void AllReduce::repeat(const StepChange& change, Bytes gradients_and_buffers) {
  const std::byte* from = gradients_and_buffers.data();
  std::vector<std::span<const float>> sums;
  for (std::size_t i = 0; i < parameters_->size(); ++i) {
    sums.emplace_back(reinterpret_cast<const float*>(from), parameters_->elements()[i]);
    from += sums.back().size_bytes();
    if (!device_sums_) continue;
    device::copy_to_device(sums.back(), gradients_[i], device_sums_->device());
    sums.back() = sums_[i];
  }
  if (change.updated) parameters_->update(change.input, change.after.version - 1, sums);
  if (change.updated || change.left_out) parameters_->count(!change.left_out, change.after.version - 1);
  for (const torch::Tensor& buffer : model_.module->buffers()) {
    buffer.copy_(torch::from_blob(const_cast<std::byte*>(from), buffer.sizes(), buffer.scalar_type()));
    from += buffer.nbytes();
  }
}

/// Between two steps.
void AllReduce::update_learners(const StepChange& change) {
  if (learners_.any()) {
    std::vector<Bytes> parts;
    std::vector<torch::Tensor> buffers;  // kept until they are copied
    std::vector<float> host(device_sums_ ? device_sums_->memory().size() : 0);
    if (device_sums_) device::copy_to_host(device_sums_->memory(), host, device_sums_->device());
    for (const std::span<float> sums : gradients_) {
      const float* first = device_sums_ ? host.data() + (sums.data() - device_sums_->memory().data()) : sums.data();
      parts.push_back(std::as_bytes(std::span(first, sums.size())));
    }
    for (const torch::Tensor& buffer : model_.module->buffers()) {
      parts.push_back(bytes_of(buffers.emplace_back(on_host(buffer))));
    }
    learners_.add(change, parts);
  }
  learners_.accept(at_, [this] { return tensors(); });
}

void AllReduce::interrupt(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (ranks_ != nullptr) ranks_->abort(reason);
  if (catch_up_) catch_up_->interrupt();
}

// ---- Views.

Step AllReduce::sync_state(const Restore& restore) {
  learners_.end();
  {
    collective::Communicator& ranks = job_.ranks();
    const MutexLock lock(mutex_);
    ranks_ = &ranks;
  }
  if (catch_up_) {  // the others have met this worker, and end what they tell it
    if (const auto caught_up = catch_up_->finish(Deadline::in(kCatchUpWithin))) at_ = *caught_up;
    if (device_sums_ && device_sums_->device().is_cuda()) torch::cuda::synchronize();  // it had another stream
    const MutexLock lock(mutex_);
    catch_up_.reset();
  }
  message_pending_ = {};  // of a step that was given up
  reductions_.clear();
  buffer_sync_.reset();
  reduce_ = {.lanes = job_.view().deal(options_.lanes)};
  if (at_.fresh && ranks_->rank() == 0 && restore.fill) {
    if (const auto restored = restore.fill(tensors(), /*initial=*/true)) at_ = *restored;
    parameters_->take_state();
  }
  const SyncResult synced = sync_to_furthest(*ranks_, at_, tensors());
  at_ = synced.at;
  at_.fresh = false;
  if (synced.taken) parameters_->take_state();
  allocate_buckets();
  buffer_sync_.emplace(*ranks_, *model_.module, options_.buffers, reduce_);
  log_info("group_formed", "formed a group with the other workers",
           {{"view", ranks_->view()},
            {"rank", ranks_->rank()},
            {"ranks", ranks_->size()},
            {"over", ranks_->transport()},
            {"gradients", device_sums_ ? device_sums_->engine() : "host"},
            {"step", at_.version}});
  return at_.version;
}

std::optional<TrainingState> AllReduce::state(const CheckpointRequest& request) {
  if (request.saved == at_.version) return std::nullopt;
  return TrainingState{.at = at_, .tensors = tensors()};
}

std::vector<NamedParameter> AllReduce::tensors() {
  std::vector<NamedParameter> all = parameters_->state();
  for (NamedParameter& piece : non_trainable_state(*model_.module)) all.push_back(std::move(piece));
  return all;
}

std::size_t AllReduce::bucket_floats() const {
  std::size_t total = 0;
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) total += whole_lines(buckets_.elements(bucket));
  return total;
}

void AllReduce::lay_out(std::span<float> memory) {
  bucket_memory_.clear();
  gradients_.resize(parameters_->size());
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) {
    const std::span<float> own = bucket_memory_.emplace_back(memory.first(buckets_.elements(bucket)));
    for (const std::uint32_t i : buckets_.members(bucket)) {
      gradients_[i] = own.subspan(buckets_.offset(i) - buckets_.first(bucket), parameters_->elements()[i]);
    }
    memory = memory.subspan(whole_lines(buckets_.elements(bucket)));
  }
  sums_.assign(gradients_.begin(), gradients_.end());
}

void AllReduce::allocate_buckets() {
  if (device_sums_) return device_sums_->connect(*ranks_, reduce_.lanes);
  const std::size_t floats = bucket_floats();
  memory_ = ranks_->allocate(floats * sizeof(float));
  lay_out({reinterpret_cast<float*>(memory_.get()), floats});
  for (const std::span<float> bucket : bucket_memory_) {
    reductions_.emplace_back(*ranks_, options_.codec, bucket.size(), reduce_);
  }
}

void AllReduce::begin(const StepInfo& info) {
  info_ = info;
  parameters_->begin_step();
  buckets_.begin();
  started_ = 0;
  message_ = {static_cast<float>(info.samples), info.stop ? 1.0f : 0.0f, info.regroup ? 1.0f : 0.0f};
  message_pending_ = collective::PendingOperation(*ranks_, collective::all_reduce(std::span<float>(message_)));
}

void AllReduce::add(std::size_t i) {
  buckets_.add(i);
  // In the order of buckets, not of their completion: that may differ between workers (an unused parameter, a lane
  // without samples), and operations are matched by their request.
  for (; started_ < buckets_.count() && buckets_.full(started_); ++started_) {
    if (device_sums_) continue;  // all at once, in `finish`
    reductions_[started_].start(bucket_memory_[started_], mix_seed(at_.version, started_),
                                fmt::format("bucket {}", started_));
  }
  const bool complete = started_ == buckets_.count() && ranks_->size() == 1;
  if (complete && device_sums_ && info_.samples > 0) parameters_->foresee(sums_, next_update(), at_.version);
}

/// If it is made.
optim::UpdateInput AllReduce::next_update() const { return {.step = at_.updates + 1, .lr = info_.lr}; }

AllReduce::Message AllReduce::await_sums() {
  const ScopedSpan span(options_.spans, "wait", info_.step);
  buffer_sync_->start();
  message_pending_.wait();
  const Message all = read_message();
  for (collective::CompressedReduce& reduction : reductions_) reduction.finish();
  if (device_sums_) device_sums_->reduce();
  buffer_sync_->wait();
  return all;
}

StepOutcome AllReduce::finish() {
  TRIREME_CHECK(started_ == buckets_.count(), "{} of {} buckets were filled", started_, buckets_.count());
  const Message all = await_sums();
  const bool any = all.samples > 0;  // else an empty last batch: a step, but nothing to learn from it
  const bool updated = any && parameters_->counts(sums_);
  optim::UpdateInput input = next_update();
  if (!updated) input.step = at_.updates;
  if (updated) parameters_->prepare(input, at_.version);
  const double factor = updated ? parameters_->clip_factor(sums_, all.samples, info_.step) : 1;
  // From here on nothing depends on anybody else: the step is made, or (above) it is not.
  const ScopedSpan span(options_.spans, "update", info_.step);
  at_.updates = input.step;
  if (updated) {
    input.gradient_scale = factor / all.samples;
    parameters_->update(input, at_.version, sums_);
  }
  if (any) parameters_->count(updated, info_.step);
  buffer_sync_->apply();
  ++at_.version;
  update_learners({.after = at_, .updated = updated, .left_out = any && !updated, .input = input});
  return {.oldest = at_.version, .newest = at_.version, .stop = all.stop, .regroup = all.regroup};
}

AllReduce::Message AllReduce::read_message() const {
  const auto [samples, stop, regroup] = message_;
  if (!(samples < kMostSamples)) {
    fail<InvalidArgument>("a step of {} samples is too large: at most {} can be counted", samples, kMostSamples);
  }
  return {.samples = samples, .stop = stop > 0, .regroup = regroup > 0};
}

void AllReduce::leave() {  // somebody may still read this worker's memory
  if (device_sums_) return device_sums_->leave();
  ranks_->run(collective::barrier());
}

std::optional<Communication> AllReduce::communication() const {
  if (ranks_ == nullptr) return std::nullopt;  // a learner that never took part
  const collective::Traffic traffic = ranks_->traffic();
  Communication result{.wire_bytes = traffic.sent_bytes + traffic.shared_bytes};
  std::uint64_t gradient_bytes = 0;
  for (const std::span<float> bucket : bucket_memory_) gradient_bytes += bucket.size_bytes();
  for (const collective::CompressedReduce& reduction : reductions_) {
    result.encode_seconds += reduction.encode_seconds();
  }
  // What a rank has to give and to get for a sum: all but its own slice, twice (Patarasuk & Yuan 2009).
  result.plain_bytes = at_.version * gradient_bytes * 2 * (ranks_->size() - 1) / ranks_->size();
  return result;
}

std::optional<HeldBytes> AllReduce::held() const {
  if (ranks_ == nullptr) return std::nullopt;
  const std::uint64_t each = buckets_.elements() * sizeof(float);
  return HeldBytes{
      .parameters = each, .gradients = each, .optimizer = each * optim::state_floats(options_.updates.config)};
}

}  // namespace trireme
