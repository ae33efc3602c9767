#include "trireme/collective/nccl/postbox.h"

#include "trireme/base/error.h"

namespace trireme::collective {
namespace {

Array bytes_of(Note& note) { return {DType::kU8, &note, sizeof(Note)}; }

}  // namespace

Postbox::~Postbox() {
  ranks_.reset();  // ends what is in flight
}

void Postbox::send(Rank peer, const Note& note) {
  Flight& flight = flights_.emplace_back(Flight{.peer = peer, .outgoing = true, .note = note});
  flight.handle = ranks_->start(collective::send(bytes_of(flight.note), peer));
}

void Postbox::expect(Rank peer) {
  Flight& flight = flights_.emplace_back(Flight{.peer = peer, .outgoing = false, .note = {}});
  flight.handle = ranks_->start(recv(bytes_of(flight.note), peer));
}

std::optional<Note> Postbox::take(Rank peer) {
  if (arrived_[peer].empty()) return {};
  const Note note = arrived_[peer].front();
  arrived_[peer].pop_front();
  return note;
}

void Postbox::advance() {
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
