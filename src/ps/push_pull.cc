#include "ps/push_pull.h"

#include <cmath>

#include "base/error.h"
#include "codec/codec.h"

namespace trireme::ps {
namespace {

/// What the chunks have left for the replicas goes out together, also if one of them throws.
class FlushScope {
 public:
  explicit FlushScope(const HeldShards& held) : held_(held) {}
  ~FlushScope() { held_.flush(); }
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;

 private:
  const HeldShards& held_;
};

}  // namespace

PushPull::PushPull(net::SessionPtr session, net::InFrame frame, PushPullRequest request,
                   std::shared_ptr<const HeldShards> held, net::BufferPool& pool)
    : session_(std::move(session)), frame_(std::move(frame)), request_(std::move(request)), held_(std::move(held)) {
  const std::size_t most = held_->tables().layout().chunks().size();
  if (request_.chunks.size() > most) {  // bounds what a pull makes us allocate
    fail<InvalidArgument>("a request names {} chunks where there are {}", request_.chunks.size(), most);
  }
  for (const std::uint32_t index : request_.chunks) {
    parts_.push_back({.chunk = &held_->primary_of(index), .sent = {}, .gradient = nullptr, .copy_to = nullptr});
    bytes_ += parts_.back().chunk->parameters().size_bytes();
  }
  if (parts_.empty()) fail<InvalidArgument>("a request names no chunk");
  if (!request_.prune_below.empty() && request_.prune_below.size() != parts_.size()) {
    fail<Corrupt>("a request names {} chunks but {} magnitudes to prune below", parts_.size(),
                  request_.prune_below.size());
  }
  for (const double magnitude : request_.prune_below) {
    if (!(magnitude >= 0 && std::isfinite(magnitude))) fail<InvalidArgument>("nothing is pruned below {}", magnitude);
  }
  remaining_ = parts_.size();
  if (frame_.header.kind == kPushPull) codec_ = held_->tables().description().codec;
  if (request_.segment != 0) {
    locate_in_segment();
  } else {
    locate_in_payload();
  }
  plan_buffers(pool);
}

codec::Spec PushPull::codec_of(const Part& part) const { return part.chunk->sums() ? codec::Spec{} : codec_; }

std::size_t PushPull::sent_bytes(const Part& part) const {
  return codec::encoded_bytes(codec_of(part), part.chunk->parameters().size());
}

void PushPull::locate_in_segment() {
  segment_ = session_->channel().shared(request_.segment);
  if (!segment_) fail<InvalidArgument>("a request refers to shared memory {} that was never shared", request_.segment);
  if (request_.offsets.size() != parts_.size()) {
    fail<Corrupt>("a request names {} chunks but {} offsets", parts_.size(), request_.offsets.size());
  }
  const std::uint64_t room = segment_->bytes().size();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::uint64_t offset = request_.offsets[i];
    const std::uint64_t bytes = sent_bytes(parts_[i]);
    if (offset > room || bytes > room - offset || offset % alignof(float) != 0) {
      fail<Corrupt>("a request refers to bytes {}..{} of shared memory that holds {}", offset, offset + bytes, room);
    }
    parts_[i].sent = segment_->bytes().subspan(offset, bytes);
  }
}

void PushPull::locate_in_payload() {
  std::size_t expected = 0;
  for (const Part& part : parts_) expected += request_.push ? sent_bytes(part) : 0;
  if (frame_.payload_bytes().size() != expected) {
    fail<Corrupt>("a request for {} bytes of chunks carries {} bytes", expected, frame_.payload_bytes().size());
  }
  if (!request_.push) return;
  std::size_t offset = 0;
  for (Part& part : parts_) {
    part.sent = Bytes(frame_.payload_bytes()).subspan(offset, sent_bytes(part));
    offset += part.sent.size();
  }
}

/// Where gradients are decoded, and where the new parameters are put for a worker that does not share memory: the
/// buffer the gradients came in, or are decoded to, carries the parameters back.
void PushPull::plan_buffers(net::BufferPool& pool) {
  const bool encoded = request_.push && codec_.kind != codec::Kind::kNone;
  if (encoded) gradient_buffer_ = pool.take(bytes_);
  if (request_.pull && !session_->channel().shares_memory()) {
    reply_buffer_ = encoded ? gradient_buffer_ : request_.push ? frame_.payload : pool.take(bytes_);
  }
  std::size_t offset = 0;
  for (Part& part : parts_) {
    const std::byte* gradient = encoded ? gradient_buffer_.get() + offset : part.sent.data();
    if (request_.push) part.gradient = reinterpret_cast<const float*>(gradient);
    if (reply_buffer_) part.copy_to = reinterpret_cast<float*>(reply_buffer_.get() + offset);
    offset += part.chunk->parameters().size_bytes();
  }
}

void PushPull::decode(const Part& part) const {
  if (!gradient_buffer_) return;
  codec::decode(codec_of(part), codec_key(request_.info.step, part.chunk->index()), part.sent,
                {const_cast<float*>(part.gradient), part.chunk->parameters().size()});
}

void PushPull::run(std::size_t begin, std::size_t end) {
  const FlushScope flush(*held_);
  for (std::size_t i = begin; i < end; ++i) {
    const Part& part = parts_[i];
    decode(part);
    ChunkRequest request{.view = frame_.header.view,
                         .worker = request_.worker,
                         .info = request_.info,
                         .gradient = part.gradient,
                         .copy_to = part.copy_to,
                         .waiter = shared_from_this()};
    if (request_.push) {
      request.prune_below = request_.prune_below.empty() ? 0 : request_.prune_below[i];
      part.chunk->push(std::move(request));
    } else if (request_.apply != 0) {
      part.chunk->apply_weighed(std::move(request), request_.apply);
    } else {
      part.chunk->pull(std::move(request));
    }
  }
}

void PushPull::run_reporting(std::size_t begin, std::size_t end) {
  try {
    run(begin, end);
  } catch (const std::exception& problem) {
    chunk_refused(problem);
  }
}

void PushPull::assign() {
  const FlushScope flush(*held_);
  for (const Part& part : parts_) {
    part.chunk->assign({part.gradient, part.chunk->parameters().size()}, frame_.header.view, shared_from_this());
  }
}

void PushPull::chunk_refused(const std::exception& reason) {
  if (!answered_.exchange(true)) session_->refuse(frame_.header, reason);
}

/// Afterwards it only keeps the gradients for whoever applies them.
void PushPull::chunk_weighed(const RoundWeight& weight) {
  RoundWeight all{.samples = weight.samples};
  {
    const MutexLock lock(mutex_);
    squares_.add(ExactSum::from_words(weight.squares));
    if (--remaining_ > 0) return;
    all.squares = squares_.words();
  }
  if (!answered_.exchange(true)) session_->reply(frame_.header, all);
}

void PushPull::chunk_done(const StepOutcome& outcome) {
  StepOutcome all;
  {
    const MutexLock lock(mutex_);
    outcome_.add(outcome);
    if (--remaining_ > 0) return;
    all = outcome_;
  }
  std::vector<Bytes> payload;
  if (reply_buffer_) payload.push_back({reply_buffer_.get(), bytes_});
  session_->reply(frame_.header, all, std::move(payload), reply_buffer_);
}

void PendingRestore::chunk_done(const StepOutcome& outcome) { session_->reply(header_, outcome); }

}  // namespace trireme::ps
