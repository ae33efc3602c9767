#include "trireme/train/all_reduce.h"

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/base/random.h"

namespace trireme {
namespace {

constexpr std::size_t kLineFloats = 16;    // buckets begin on a cache line
constexpr double kMostSamples = 1u << 24;  // up to here a float counts exactly

std::size_t whole_lines(std::size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

}  // namespace

AllReduce::AllReduce(collective::Communicator& ranks, AllReduceOptions options)
    : ranks_(ranks), options_(std::move(options)) {}

void AllReduce::attach(const Model& model) {
  model_ = model;
  parameters_ = HostParameters(*model.module, options_.update);
  buckets_ = Buckets(parameters_.elements(), options_.bucket_bytes);
}

Step AllReduce::meet(const Restore& restore) {
  message_pending_ = {};  // of a step that was given up
  reductions_.clear();
  buffer_sync_.reset();
  reduce_ = {.lanes = options_.deal ? options_.deal() : deal_lanes(options_.lanes, ranks_.size())};
  if (at_.fresh && ranks_.rank() == 0 && restore) {
    if (const auto restored = restore(state({})->tensors, /*initial=*/true)) at_ = *restored;
    parameters_.publish_all();
  }
  const Levelled levelled = share_state(ranks_, at_, state({})->tensors);
  at_ = levelled.at;
  at_.fresh = false;
  if (levelled.taken) parameters_.publish_all();
  allocate_buckets();
  buffer_sync_.emplace(ranks_, *model_.module, options_.buffers, reduce_);
  log_info("met the other workers", {{"view", ranks_.view()},
                                     {"rank", ranks_.rank()},
                                     {"ranks", ranks_.size()},
                                     {"over", ranks_.transport()},
                                     {"step", at_.version}});
  return at_.version;
}

std::optional<TrainingState> AllReduce::state(const SaveOrder& order) {
  if (order.saved == at_.version) return std::nullopt;
  TrainingState state{.at = at_, .tensors = parameters_.state()};
  for (NamedParameter& piece : untrained_state(*model_.module)) state.tensors.push_back(std::move(piece));
  return state;
}

void AllReduce::allocate_buckets() {
  const auto floats_of = [&](std::size_t bucket) {
    std::size_t floats = 0;
    for (const std::uint32_t i : buckets_.members(bucket)) floats += parameters_.elements()[i];
    return floats;
  };
  std::size_t total = 0;
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) total += whole_lines(floats_of(bucket));
  memory_ = ranks_.allocate(total * sizeof(float));
  bucket_memory_.clear();
  auto* next = reinterpret_cast<float*>(memory_.get());
  gradients_.resize(parameters_.size());
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) {
    bucket_memory_.emplace_back(next, floats_of(bucket));
    reductions_.emplace_back(ranks_, options_.codec, floats_of(bucket), reduce_);
    float* at = next;
    for (const std::uint32_t i : buckets_.members(bucket)) {
      gradients_[i] = {at, parameters_.elements()[i]};
      at += gradients_[i].size();
    }
    next += whole_lines(floats_of(bucket));
  }
}

void AllReduce::begin(const StepInfo& info) {
  info_ = info;
  buckets_.begin();
  full_.assign(buckets_.count(), false);
  started_ = 0;
  message_ = {static_cast<float>(info.samples), info.stop ? 1.0f : 0.0f, info.regroup ? 1.0f : 0.0f};
  message_pending_ = Pending(ranks_, collective::all_reduce(std::span<float>(message_)));
}

void AllReduce::add(std::size_t i) {
  const auto full = buckets_.add(i);
  if (!full) return;
  full_[*full] = true;
  // In the order of buckets, not of their completion: that may differ between workers (an unused parameter, a lane
  // without samples), and operations are matched by their order.
  for (; started_ < full_.size() && full_[started_]; ++started_) {
    reductions_[started_].start(bucket_memory_[started_], mix_seed(at_.version, started_),
                                fmt::format("bucket {}", started_));
  }
}

Commit AllReduce::finish() {
  TRIREME_CHECK(started_ == buckets_.count(), "{} of {} buckets were filled", started_, buckets_.count());
  buffer_sync_->start();
  message_pending_.wait();
  const Message all = read_message();
  for (CodedReduce& reduction : reductions_) reduction.finish();
  buffer_sync_->wait();
  // From here on nothing depends on anybody else: the step is made, or (above) it is not.
  if (all.samples > 0) {  // else an empty last batch: a step, but nothing to learn from it
    const ps::UpdateInput input{.step = ++at_.updates, .lr = info_.lr, .gradient_scale = 1 / all.samples};
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_.update(i, input, gradients_[i]);
      parameters_.publish(i);
    }
  }
  buffer_sync_->apply();
  return {.version = ++at_.version, .counted = true, .stop = all.stop, .regroup = all.regroup};
}

AllReduce::Message AllReduce::read_message() const {
  const auto [samples, stop, regroup] = message_;
  if (!(samples < kMostSamples)) {
    fail<InvalidArgument>("a step of {} samples is too large: at most {} can be counted", samples, kMostSamples);
  }
  return {.samples = samples, .stop = stop > 0, .regroup = regroup > 0};
}

void AllReduce::leave() { ranks_.run(collective::barrier()); }  // somebody may still read this worker's memory

std::optional<Communication> AllReduce::communication() const {
  const collective::Traffic traffic = ranks_.traffic();
  Communication result{.wire_bytes = traffic.sent_bytes + traffic.shared_bytes};
  std::uint64_t gradient_bytes = 0;
  for (std::size_t bucket = 0; bucket < reductions_.size(); ++bucket) {
    gradient_bytes += bucket_memory_[bucket].size_bytes();
    result.encode_seconds += reductions_[bucket].encode_seconds();
  }
  // What a rank has to give and to get for a sum: all but its own slice, twice (Patarasuk & Yuan 2009).
  result.plain_bytes = at_.version * gradient_bytes * 2 * (ranks_.size() - 1) / ranks_.size();
  return result;
}

}  // namespace trireme
