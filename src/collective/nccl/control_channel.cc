#include "collective/nccl/control_channel.h"

#include "base/error.h"

namespace trireme::collective {
namespace {

Array bytes_of(Rendezvous& message) { return {DType::kU8, &message, sizeof(Rendezvous)}; }

}  // namespace

ControlChannel::~ControlChannel() {
  ranks_.reset();  // ends pending transfers
}

void ControlChannel::send(Rank peer, const Rendezvous& message) {
  Transfer& transfer = transfers_.emplace_back(Transfer{.peer = peer, .outgoing = true, .message = message});
  transfer.handle = ranks_->start(collective::send(bytes_of(transfer.message), peer));
}

void ControlChannel::expect(Rank peer) {
  Transfer& transfer = transfers_.emplace_back(Transfer{.peer = peer, .outgoing = false, .message = {}});
  transfer.handle = ranks_->start(recv(bytes_of(transfer.message), peer));
}

std::optional<Rendezvous> ControlChannel::take(Rank peer) {
  if (arrived_[peer].empty()) return {};
  const Rendezvous message = arrived_[peer].front();
  arrived_[peer].pop_front();
  return message;
}

void ControlChannel::advance() {
  for (auto transfer = transfers_.begin(); transfer != transfers_.end();) {
    if (!transfer->handle.valid() || !transfer->handle.poll()) {
      ++transfer;
      continue;
    }
    transfer->handle.wait();
    if (!transfer->outgoing) arrived_[transfer->peer].push_back(transfer->message);
    transfer = transfers_.erase(transfer);
  }
}

}  // namespace trireme::collective
