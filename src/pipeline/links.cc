#include "pipeline/links.h"

#include <algorithm>

#include "base/error.h"

namespace trireme::pipeline {
namespace {

using Clock = std::chrono::steady_clock;
using collective::Array;
using collective::PendingOperation;

constexpr std::size_t kAhead = 2;  // receives per peer that nobody waits for yet

Array as_array(Layout& layout) { return {DType::kU8, layout.data(), layout.size()}; }
collective::ConstArray as_array(const Layout& layout) { return {DType::kU8, layout.data(), layout.size()}; }

}  // namespace

Links::Links(collective::Communicator& ranks, const plan::Schedule& schedule) : ranks_(ranks), schedule_(schedule) {
  if (schedule.ranks.size() != ranks.size()) {
    fail<InvalidArgument>("a schedule of {} ranks cannot be run by {}", schedule.ranks.size(), ranks.size());
  }
}

void Links::begin(MessageStore& store, const std::function<bool(std::uint32_t micro_batch)>& absent) {
  peers_ = std::vector<Peer>(ranks_.size());
  sent_.clear();
  waited_ = {};
  store_ = &store;
  for (Rank peer = 0; peer < ranks_.size(); ++peer) {
    peers_[peer].rank = peer;
    if (peer != ranks_.rank()) peers_[peer].order = messages_between(schedule_, peer, ranks_.rank(), absent);
  }
  for (Peer& peer : peers_) post_ahead(peer);
}

void Links::send(const Message& message, Outgoing outgoing) {
  const Rank peer = schedule_.rank_of_stage[message.stage];
  sent_.push_back({.outgoing = std::move(outgoing), .operations = {}});
  Sent& sent = sent_.back();
  if (sent.outgoing.layout) {
    sent.operations.emplace_back(ranks_, collective::send(as_array(*sent.outgoing.layout), peer));
  }
  for (const collective::ConstArray& array : sent.outgoing.arrays) {
    if (array.count > 0) sent.operations.emplace_back(ranks_, collective::send(array, peer));
  }
  collect_sent();
}

void Links::receive(const Message& message) {
  const auto began = Clock::now();
  Peer& peer = peers_[schedule_.rank_of_stage[message.from()]];
  const auto find = [&] { return std::ranges::find(peer.posted, message, &Incoming::message); };
  auto found = find();
  while (found == peer.posted.end() || !found->posted) {
    // The layouts before it first: data is posted in the order in which it is sent.
    const auto unknown = std::ranges::find(peer.posted, false, &Incoming::posted);
    if (unknown != peer.posted.end()) {
      unknown->header->wait();
      take_header(*unknown);
    } else if (!post_next(peer)) {
      fail<InvalidArgument>("rank {} never sends {}: the schedules of the ranks differ", peer.rank, to_text(message));
    }
    found = find();
  }
  for (PendingOperation& operation : found->data) operation.wait();
  peer.posted.erase(found);
  post_ahead(peer);
  waited_ += Clock::now() - began;
}

void Links::advance() {
  collect_sent();
  for (Peer& peer : peers_) post_ahead(peer);
}

void Links::finish() {
  const auto began = Clock::now();
  for (Sent& sent : sent_) {
    for (PendingOperation& operation : sent.operations) operation.wait();
  }
  sent_.clear();
  waited_ += Clock::now() - began;
}

/// Posts the receive of the peer's next message; false if there is none, or one before it still waits for its layout.
bool Links::post_next(Peer& peer) {
  if (peer.next == peer.order.size()) return false;
  if (!peer.posted.empty() && !peer.posted.back().posted) return false;
  Incoming& incoming = peer.posted.emplace_back(Incoming{.message = peer.order[peer.next++]});
  if (post_data(incoming)) return true;
  incoming.layout = std::make_shared<Layout>();
  incoming.header.emplace(ranks_, collective::recv(as_array(*incoming.layout), peer.rank));
  return true;
}

bool Links::post_data(Incoming& incoming) {
  const auto memory = store_->memory_for(incoming.message);
  if (!memory) return false;
  const Rank peer = schedule_.rank_of_stage[incoming.message.from()];
  for (const Array& array : *memory) {
    if (array.count > 0) incoming.data.emplace_back(ranks_, collective::recv(array, peer));
  }
  incoming.posted = true;
  return true;
}

void Links::take_header(Incoming& incoming) {
  incoming.header->wait();  // has ended: throws what went wrong
  store_->learn(incoming.message, *incoming.layout);
  TRIREME_CHECK(post_data(incoming), "a layout that was just learned");
}

void Links::post_ahead(Peer& peer) {
  if (!peer.posted.empty() && !peer.posted.back().posted && peer.posted.back().header->poll()) {
    take_header(peer.posted.back());
  }
  while (peer.posted.size() < kAhead && post_next(peer)) {
  }
}

/// Lets go of the memory of what has arrived.
void Links::collect_sent() {
  while (!sent_.empty() && std::ranges::all_of(sent_.front().operations, [](const auto& o) { return o.poll(); })) {
    for (PendingOperation& operation : sent_.front().operations) operation.wait();  // throws what went wrong
    sent_.pop_front();
  }
}

}  // namespace trireme::pipeline
