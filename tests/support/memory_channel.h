#pragma once

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "net/channel.h"

namespace trireme::net {

/// Both directions between the two ends of a memory channel. It has no thread: frames are moved by whoever waits on
/// either end (`Channel::pump`), or calls `deliver`. Thread-safe.
class MemoryLink {
 public:
  void attach(int end, std::weak_ptr<FrameReceiver> receiver) { ends_[end].receiver = std::move(receiver); }

  void send(int from, OutFrame frame) {
    InFrame copy{.header = frame.header, .body = std::move(frame.body), .payload = {}};
    std::string payload;
    for (const Bytes part : frame.payload) payload.append(as_text(part));
    copy.header.body_bytes = static_cast<std::uint32_t>(copy.body.size());
    copy.header.payload_bytes = payload.size();
    {
      const std::lock_guard lock(mutex_);
      if (ends_[from].closed || ends_[1 - from].closed) return;
      ends_[1 - from].arriving.push_back({std::move(copy), std::move(payload)});
    }
    changed_.notify_all();
  }

  void close(int end, const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (!ends_[end].closed) {
        ends_[end].closed = reason;
        ends_[end].arriving.clear();
      }
      if (!ends_[1 - end].closed) ends_[1 - end].closed = "the peer closed the connection";
    }
    deliver_to(end);
    changed_.notify_all();
  }

  /// Moves all that has arrived at either end, and what these say to it, until nothing is left. The end of the link
  /// comes behind the frames sent before it.
  void deliver() {
    while (deliver_to(0) || deliver_to(1)) {
    }
  }

  void pump(const std::atomic<bool>& done, Deadline deadline) {
    do {
      deliver();
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, deadline.at(), [&] {
        return done.load(std::memory_order_acquire) || has_news(ends_[0]) || has_news(ends_[1]);
      });
    } while (!done.load(std::memory_order_acquire) && !deadline.passed());
  }

 private:
  struct Arriving {
    InFrame frame;
    std::string payload;
  };
  struct End {
    std::weak_ptr<FrameReceiver> receiver;
    std::deque<Arriving> arriving;
    std::optional<std::string> closed;  // why
    bool told = false;                  // of the end: nothing follows
    bool busy = false;                  // a thread is with the receiver
  };

  static bool has_news(const End& end) { return !end.busy && !end.told && (!end.arriving.empty() || end.closed); }

  /// Everything that there is for one end; false if there was nothing, or another thread is at it.
  bool deliver_to(int number) {
    End& end = ends_[number];
    std::unique_lock lock(mutex_);
    if (!has_news(end)) return false;
    end.busy = true;
    while (!end.told && (!end.arriving.empty() || end.closed)) {
      std::optional<Arriving> next;
      if (!end.arriving.empty()) {
        next = std::move(end.arriving.front());
        end.arriving.pop_front();
      } else {
        end.told = true;
      }
      const std::string reason = end.closed.value_or("");
      lock.unlock();
      const auto receiver = end.receiver.lock();
      const std::string problem = receiver && next ? hand_over(*receiver, std::move(*next)) : "";
      if (receiver && !next) receiver->on_close(reason);
      lock.lock();
      if (!problem.empty() && !end.closed) {  // as a transport does: what the receiver refuses ends the channel
        end.closed = problem;
        end.arriving.clear();
        if (!ends_[1 - number].closed) ends_[1 - number].closed = "the peer closed the connection";
      }
    }
    end.busy = false;
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  /// Empty, or why the receiver does not want the frame.
  static std::string hand_over(FrameReceiver& receiver, Arriving arriving) {
    try {
      InFrame& frame = arriving.frame;
      Bytes left = as_bytes(arriving.payload);
      if (!left.empty()) {
        if (auto places = receiver.place(frame.header)) {
          for (const MutableBytes place : *places) {
            std::memcpy(place.data(), left.data(), place.size());
            left = left.subspan(place.size());
          }
        } else {
          frame.payload = {new std::byte[left.size()], std::default_delete<std::byte[]>()};
          std::memcpy(frame.payload.get(), left.data(), left.size());
        }
      }
      receiver.on_frame(std::move(frame));
      return "";
    } catch (const Error& problem) {
      return problem.what();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<End, 2> ends_;  // guarded by mutex_, but for `receiver`, which is set before the first frame
};

/// One end of a pair of channels in one process: the tenant of `Channel` for tests. Same contract as the real ones.
class MemoryChannel final : public Channel {
 public:
  MemoryChannel(std::shared_ptr<MemoryLink> link, int end, std::weak_ptr<FrameReceiver> receiver)
      : link_(std::move(link)), end_(end) {
    link_->attach(end_, std::move(receiver));
  }

  void start() override {}
  void send(OutFrame frame) override { link_->send(end_, std::move(frame)); }
  void close(const std::string& reason) override { link_->close(end_, reason); }
  std::string peer() const override { return end_ == 0 ? "the second end (memory)" : "the first end (memory)"; }
  void pump(const std::atomic<bool>& done, Deadline deadline) override { link_->pump(done, deadline); }

 private:
  std::shared_ptr<MemoryLink> link_;
  int end_;
};

/// What happens to a frame that is sent.
enum class ChannelFault {
  kNone,
  kDelay,    ///< it, and all behind it, leave when `delay_frames` more have been sent, or at `release`
  kDrop,     ///< it never arrives
  kReorder,  ///< it leaves behind the next one
  kCut,      ///< the connection ends; it never arrives
};

/// Which faults a channel has: a value, whose seed decides. The first frames go as `script` says, the others by chance.
struct ChannelFaultPlan {
  std::uint64_t seed = 1;
  std::vector<ChannelFault> script = {};
  double delay = 0;  ///< probabilities, per frame; together at most 1
  double drop = 0;
  double reorder = 0;
  double cut = 0;
  std::size_t delay_frames = 3;
};

/// What was injected so far.
struct ChannelFaultCounts {
  std::uint64_t sent = 0;  ///< frames that came here, whatever happened to them
  std::uint64_t delayed = 0;
  std::uint64_t dropped = 0;
  std::uint64_t reordered = 0;
  std::uint64_t cut = 0;

  std::uint64_t injected() const { return delayed + dropped + reordered + cut; }
  bool operator==(const ChannelFaultCounts&) const = default;
};

/// A channel with faults in the direction away from its owner. Counts in frames, not in time: the same plan and the
/// same calls give the same faults. Thread-safe.
class FaultyChannel final : public Channel {
 public:
  FaultyChannel(std::shared_ptr<Channel> inner, ChannelFaultPlan plan)
      : inner_(std::move(inner)), plan_(std::move(plan)), random_(plan_.seed) {}

  void start() override { inner_->start(); }

  void send(OutFrame frame) override {
    std::unique_lock lock(mutex_);
    ++counts_.sent;
    if (counts_.sent >= hold_until_) send_held();
    switch (next_fault()) {
      case ChannelFault::kNone:
        break;
      case ChannelFault::kDrop:
        ++counts_.dropped;
        return;
      case ChannelFault::kCut:
        ++counts_.cut;
        forget_held();
        lock.unlock();
        return inner_->close("the connection was cut");
      case ChannelFault::kReorder:
        if (behind_next_) break;  // one of them waits for the next, which is this one
        ++counts_.reordered;
        behind_next_ = std::move(frame);
        return;
      case ChannelFault::kDelay:
        ++counts_.delayed;
        hold_until_ = counts_.sent + plan_.delay_frames;
        break;
    }
    forward(std::move(frame));
    if (behind_next_) forward(*std::exchange(behind_next_, std::nullopt));
  }

  /// Lets go what is held back.
  void release() {
    const std::lock_guard lock(mutex_);
    send_held();
    if (behind_next_) inner_->send(*std::exchange(behind_next_, std::nullopt));
  }

  ChannelFaultCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

  void close(const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      forget_held();  // their payload may be gone from now on
    }
    inner_->close(reason);
  }

  std::string peer() const override { return inner_->peer(); }
  void pump(const std::atomic<bool>& done, Deadline deadline) override { inner_->pump(done, deadline); }

 private:
  ChannelFault next_fault() {
    if (counts_.sent <= plan_.script.size()) return plan_.script[counts_.sent - 1];
    double drawn = random_.uniform();
    for (const auto& [fault, probability] : {std::pair(ChannelFault::kDelay, plan_.delay),
                                             {ChannelFault::kDrop, plan_.drop},
                                             {ChannelFault::kReorder, plan_.reorder},
                                             {ChannelFault::kCut, plan_.cut}}) {
      if (drawn < probability) return fault;
      drawn -= probability;
    }
    return ChannelFault::kNone;
  }

  void forward(OutFrame frame) {
    if (counts_.sent < hold_until_) {
      held_.push_back(std::move(frame));
    } else {
      inner_->send(std::move(frame));
    }
  }

  void send_held() {
    hold_until_ = 0;
    for (OutFrame& frame : std::exchange(held_, {})) inner_->send(std::move(frame));
  }

  void forget_held() {
    held_.clear();
    behind_next_.reset();
  }

  const std::shared_ptr<Channel> inner_;
  const ChannelFaultPlan plan_;
  mutable std::mutex mutex_;  // guards all below
  RandomStream random_;
  ChannelFaultCounts counts_;
  std::vector<OutFrame> held_;    // delayed, in order
  std::uint64_t hold_until_ = 0;  // so many have been sent
  std::optional<OutFrame> behind_next_;
};

}  // namespace trireme::net
