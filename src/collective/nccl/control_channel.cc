#include "collective/nccl/control_channel.h"

#include "base/error.h"

namespace trireme::collective {
namespace {

Array bytes_of(ControlMessage& note) { return {DType::kU8, &note, sizeof(ControlMessage)}; }

}  // namespace

ControlChannel::~ControlChannel() {
  ranks_.reset();  // ends what is in flight
}

void ControlChannel::send(Rank peer, const ControlMessage& note) {
  Flight& flight = flights_.emplace_back(Flight{.peer = peer, .outgoing = true, .note = note});
  flight.handle = ranks_->start(collective::send(bytes_of(flight.note), peer));
}

void ControlChannel::expect(Rank peer) {
  Flight& flight = flights_.emplace_back(Flight{.peer = peer, .outgoing = false, .note = {}});
  flight.handle = ranks_->start(recv(bytes_of(flight.note), peer));
}

std::optional<ControlMessage> ControlChannel::take(Rank peer) {
  if (arrived_[peer].empty()) return {};
  const ControlMessage note = arrived_[peer].front();
  arrived_[peer].pop_front();
  return note;
}

void ControlChannel::advance() {
  for (auto flight = flights_.begin(); flight != flights_.end();) {
    if (!flight->handle.valid() || !flight->handle.poll()) {
      ++flight;
      continue;
    }
    flight->handle.wait();
    if (!flight->outgoing) arrived_[flight->peer].push_back(flight->note);
    flight = flights_.erase(flight);
  }
}

}  // namespace trireme::collective
