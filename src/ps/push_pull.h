#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/numbers/exact_sum.h"
#include "net/service.h"
#include "ps/tables.h"

namespace trireme::ps {

/// One push, pull or push+pull of many chunks, from its arrival until its answer is sent. Keeps the memory of its
/// gradients alive; the last chunk that is done sends the reply, the first that is refused the refusal.
class PushPull final : public ChunkWaiter, public std::enable_shared_from_this<PushPull> {
 public:
  /// Checks that everything the request refers to exists here, as primary, and fits. Throws InvalidArgument or Corrupt.
  PushPull(net::SessionPtr session, net::InFrame frame, PushPullRequest request, std::shared_ptr<const HeldShards> held,
           net::BufferPool& pool);

  std::size_t size() const { return parts_.size(); }
  std::size_t bytes() const { return bytes_; }
  bool pushes() const { return request_.push; }
  Step step() const { return request_.info.step; }

  /// Does chunks [begin, end) of the request.
  void run(std::size_t begin, std::size_t end);

  /// The same on a thread of its own: what goes wrong is sent as the answer.
  void run_reporting(std::size_t begin, std::size_t end);

  /// Stores all chunks as initial values.
  void assign();

  void chunk_done(const StepOutcome& outcome) override;
  void chunk_weighed(const RoundWeight& weight) override;
  void chunk_refused(const std::exception& reason) override;

 private:
  struct Part {
    Chunk* chunk;
    Bytes sent;             ///< the gradient as it came
    const float* gradient;  ///< and as floats: there already, or where `decode` puts them
    float* copy_to;
  };

  codec::Spec codec_of(const Part& part) const;
  std::size_t sent_bytes(const Part& part) const;
  void locate_in_segment();
  void locate_in_payload();
  void plan_buffers(net::BufferPool& pool);
  void decode(const Part& part) const;

  net::SessionPtr session_;
  net::InFrame frame_;
  PushPullRequest request_;
  std::shared_ptr<const HeldShards> held_;
  std::shared_ptr<net::Segment> segment_;
  codec::Spec codec_;                           // of the gradients; none for initial values
  std::shared_ptr<std::byte> gradient_buffer_;  // of decoded gradients
  std::shared_ptr<std::byte> reply_buffer_;
  std::vector<Part> parts_;
  std::size_t bytes_ = 0;

  Mutex mutex_;
  std::size_t remaining_ TRIREME_GUARDED_BY(mutex_) = 0;  // chunks
  StepOutcome outcome_ TRIREME_GUARDED_BY(mutex_) = StepOutcome::none();
  ExactSum squares_ TRIREME_GUARDED_BY(mutex_);  // where the job clips
  std::atomic<bool> answered_{false};            // before its gradients were applied, or with a refusal
};

/// A single chunk that becomes what was saved: answered like a push.
class PendingRestore final : public ChunkWaiter {
 public:
  PendingRestore(net::SessionPtr session, const net::FrameHeader& header)
      : session_(std::move(session)), header_(header) {}
  void chunk_done(const StepOutcome& outcome) override;
  void chunk_refused(const std::exception& reason) override { session_->refuse(header_, reason); }

 private:
  net::SessionPtr session_;
  net::FrameHeader header_;
};

}  // namespace trireme::ps
