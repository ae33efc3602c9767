#include "trireme/train/all_reduce.h"

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/base/random.h"
#include "trireme/train/broadcast.h"

namespace trireme {
namespace {

constexpr std::size_t kLineFloats = 16;    // buckets begin on a cache line
constexpr double kMostSamples = 1u << 24;  // up to here a float counts exactly

std::size_t whole_lines(std::size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

}  // namespace

AllReduce::AllReduce(collective::Communicator& ranks, AllReduceOptions options)
    : ranks_(ranks), options_(options), reduce_{.lanes = deal_lanes(options.lanes, ranks.size())} {}

void AllReduce::attach(const Model& model) {
  broadcast_model(ranks_, *model.module);
  parameters_ = HostParameters(*model.module, options_.update);
  buckets_ = Buckets(parameters_.elements(), options_.bucket_bytes);
  allocate_buckets();
  buffer_sync_.emplace(ranks_, *model.module, options_.buffers, reduce_);
  log_info(
      "attached to the other workers",
      {{"rank", ranks_.rank()}, {"ranks", ranks_.size()}, {"over", ranks_.transport()}, {"buckets", buckets_.count()}});
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
  message_ = {static_cast<float>(info.samples), info.stop ? 1.0f : 0.0f};
  message_pending_ = Pending(ranks_, collective::all_reduce(std::span<float>(message_)));
}

void AllReduce::add(std::size_t i) {
  const auto full = buckets_.add(i);
  if (!full) return;
  full_[*full] = true;
  // In the order of buckets, not of their completion: that may differ between workers (an unused parameter, a lane
  // without samples), and operations are matched by their order.
  for (; started_ < full_.size() && full_[started_]; ++started_) {
    reductions_[started_].start(bucket_memory_[started_], mix_seed(version_, started_),
                                fmt::format("bucket {}", started_));
  }
}

Commit AllReduce::finish() {
  TRIREME_CHECK(started_ == buckets_.count(), "{} of {} buckets were filled", started_, buckets_.count());
  buffer_sync_->start();
  message_pending_.wait();
  const Message all = read_message();
  ps::UpdateInput input{.lr = info_.lr};
  if (all.samples > 0) {
    input.step = ++updates_;
    input.gradient_scale = 1 / all.samples;
  }
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) {
    reductions_[bucket].finish();
    if (all.samples <= 0) continue;  // an empty last batch: a step, but nothing to learn from it
    for (const std::uint32_t i : buckets_.members(bucket)) {
      parameters_.update(i, input, gradients_[i]);
      parameters_.publish(i);
    }
  }
  buffer_sync_->finish();
  return {.version = ++version_, .counted = true, .stop = all.stop};
}

AllReduce::Message AllReduce::read_message() const {
  const auto [samples, stop] = message_;
  if (!(samples < kMostSamples)) {
    fail<InvalidArgument>("a step of {} samples is too large: at most {} can be counted", samples, kMostSamples);
  }
  return {.samples = samples, .stop = stop > 0};
}

void AllReduce::leave() {
  // Nobody goes while somebody may still read its memory. Who hears of the end of others here is through as well: they
  // went because all had arrived.
  try {
    ranks_.run(collective::barrier());
  } catch (const PeerLost& gone) {
    log_debug("others were gone before the last barrier ended here", {{"reason", gone.what()}});
  }
}

std::optional<Communication> AllReduce::communication() const {
  const collective::Traffic traffic = ranks_.traffic();
  Communication result{.wire_bytes = traffic.sent_bytes + traffic.shared_bytes};
  std::size_t encoded = 0;
  std::size_t plain = 0;
  for (std::size_t bucket = 0; bucket < reductions_.size(); ++bucket) {
    encoded += reductions_[bucket].encoded_bytes();
    plain += bucket_memory_[bucket].size_bytes();
    result.encode_seconds += reductions_[bucket].encode_seconds();
  }
  const double ratio = static_cast<double>(plain) / static_cast<double>(encoded);
  result.plain_bytes = static_cast<std::uint64_t>(static_cast<double>(result.wire_bytes) * ratio);
  return result;
}

}  // namespace trireme
