#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "collective/pending_operation.h"
#include "pipeline/message_order.h"

namespace trireme::pipeline {

/// How large the description of a message's layout may be. It travels ahead of the first message of its kind, and again
/// when the layout changes.
inline constexpr std::size_t kLayoutBytes = 4096;
using Layout = std::array<std::byte, kLayoutBytes>;

/// Who receives messages: gives them memory.
class MessageStore {
 public:
  virtual ~MessageStore() = default;

  /// Returns where `message` goes, valid until it was received and used; nullopt: its layout is not known here, so
  /// that the sender, which knows this too, sends it first.
  virtual std::optional<std::vector<collective::Array>> memory_for(const Message& message) = 0;

  /// The layout of `message`, which comes next; `memory_for` knows it from now on.
  virtual void learn(const Message& message, const Layout& layout) = 0;
};

/// What is sent: the arrays, and who keeps their memory until they have arrived.
struct Outgoing {
  std::vector<collective::ConstArray> arrays = {};
  std::shared_ptr<const void> keep = {};
  std::shared_ptr<const Layout> layout = {};  ///< not null: it goes ahead
};

/// The messages of a rank of a pipeline. Sends never wait for the receiver; receives are posted ahead, in the order in
/// which the peer sends, so that data moves while this rank computes. Not thread-safe.
///
/// Whatever `receive` and `finish` wait for has the communicator's deadline; they throw its errors: PeerLost, Timeout,
/// and InvalidArgument naming both ranks if what is sent is not what is expected. An exception in the middle of a step
/// leaves operations behind, and the destructor, or `begin`, aborts the group then: peers learn of it at once.
class Links {
 public:
  /// Both outlive the links; `schedule` has its messages, and as many ranks as `ranks`.
  Links(collective::Communicator& ranks, const plan::Schedule& schedule);

  /// A step begins, or an evaluation. `store` outlives it. Micro-batches that `absent` names have no messages.
  void begin(MessageStore& store, const std::function<bool(std::uint32_t micro_batch)>& absent = {});

  void send(const Message& message, Outgoing outgoing);

  /// Waits until `message` is in the store's memory.
  void receive(const Message& message);

  /// Does what can be done without waiting: call it between actions.
  void advance();

  /// Waits until everything sent has arrived. All messages of the step have been received.
  void finish();

  /// Time spent in `receive` and `finish` since `begin`.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  struct Incoming {
    Message message;
    std::shared_ptr<Layout> layout;  // declared before the operations that fill it; null: it is known
    std::optional<collective::PendingOperation> header;
    std::vector<collective::PendingOperation> data;
    bool posted = false;  // its data
  };
  struct Peer {
    Rank rank = 0;
    std::vector<Message> order;  // what it sends to us
    std::size_t next = 0;        // of them, to be posted
    std::deque<Incoming> posted;
  };
  struct Sent {
    Outgoing outgoing;
    std::vector<collective::PendingOperation> operations;
  };

  bool post_next(Peer& peer);
  bool post_data(Incoming& incoming);
  void take_header(Incoming& incoming);
  void post_ahead(Peer& peer);
  void collect_sent();

  collective::Communicator& ranks_;
  const plan::Schedule& schedule_;
  MessageStore* store_ = nullptr;
  std::vector<Peer> peers_;  // by rank
  std::deque<Sent> sent_;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace trireme::pipeline
