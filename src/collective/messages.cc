#include "collective/messages.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "collective/engine_support.h"

namespace trireme::collective {
namespace {

enum class Kind : std::uint32_t { kOffer = 1, kAccept = 2, kRefuse = 3, kData = 4 };

/// Precedes everything on a message pipe. Offers and answers stand alone, data is followed by `bytes` of it.
struct Header {
  Kind kind = Kind::kOffer;
  DType dtype = DType::kF32;
  std::uint64_t count = 0;  ///< elements offered, or expected by a receiver that refuses
  std::uint64_t bytes = 0;
};
static_assert(sizeof(Header) == 24);

constexpr std::size_t kPieceBytes = 256u << 10;  // so that answers need not wait long behind data

}  // namespace

struct Messages::Posted {
  const Operation* operation;
  Deadline deadline;
  Backend::Done done;
  bool offered = false;   // send: the offer was sent
  bool accepted = false;  // by us (recv) or by the other side (send)
  std::size_t moved = 0;

  MutableBytes memory() const {
    if (operation->kind == OperationKind::kRecv) return operation->out.bytes();
    return {const_cast<std::byte*>(operation->in.data), operation->in.size_bytes()};
  }
};

/// The state of one pair of ranks: what is posted, and how far both directions have got.
struct Messages::Link {
  Link(Mesh& mesh, Rank peer_rank) : owner(mesh), peer(peer_rank), pipe(mesh.message_pipe(peer_rank)) {}

  bool idle() const { return broken || (sends.empty() && recvs.empty() && out_queue.empty() && out_left == 0); }

  bool advance() {
    bool moved = false;
    while (write() || read()) moved = true;
    return moved;
  }

  bool write() {
    bool moved = false;
    if (out_left == 0 && !next_output()) return false;
    while (out_header_done < sizeof(Header)) {
      const std::size_t sent = pipe.try_send(std::as_bytes(std::span(&out_header, 1)).subspan(out_header_done));
      if (sent == 0) return moved;
      out_header_done += sent;
      out_left -= sent;
      moved = true;
    }
    while (out_left > 0) {
      Posted& send = *sends.front();
      const std::size_t sent = pipe.try_send(Bytes(send.memory()).subspan(send.moved, out_left));
      if (sent == 0) return moved;
      send.moved += sent;
      out_left -= sent;
      moved = true;
    }
    finish_send();
    return moved;
  }

  /// Chooses what to write next: answers first, then the offer or the next piece of the first send.
  bool next_output() {
    out_header_done = 0;
    if (!out_queue.empty()) {
      out_header = out_queue.front();
      out_queue.pop_front();
      out_left = sizeof(Header);
      return true;
    }
    for (auto& send : sends) {
      if (send->offered) continue;
      send->offered = true;
      out_header = {.kind = Kind::kOffer, .dtype = send->operation->in.dtype, .count = send->operation->in.count};
      out_left = sizeof(Header);
      return true;
    }
    if (sends.empty() || !sends.front()->accepted) return false;
    Posted& send = *sends.front();
    const std::size_t bytes = std::min(kPieceBytes, send.memory().size() - send.moved);
    if (bytes == 0) return false;
    out_header = {.kind = Kind::kData, .bytes = bytes};
    out_left = sizeof(Header) + bytes;
    return true;
  }

  void finish_send() {
    if (sends.empty()) return;
    Posted& send = *sends.front();
    if (send.accepted && send.moved == send.memory().size()) end(sends, nullptr);
  }

  bool read() {
    bool moved = false;
    while (in_header_done < sizeof(Header)) {
      const std::size_t got = pipe.try_recv(std::as_writable_bytes(std::span(&in_header, 1)).subspan(in_header_done));
      if (got == 0) return moved;
      in_header_done += got;
      moved = true;
      if (in_header_done == sizeof(Header)) take_header();
    }
    while (in_left > 0) {
      Posted& recv = *recvs.front();
      const std::size_t got = pipe.try_recv(recv.memory().subspan(recv.moved, in_left));
      if (got == 0) return moved;
      recv.moved += got;
      in_left -= got;
      moved = true;
    }
    in_header_done = 0;
    if (!recvs.empty() && recvs.front()->accepted && recvs.front()->moved == recvs.front()->memory().size()) {
      end(recvs, nullptr);
      answer_offers();
    }
    return moved;
  }

  void take_header() {
    if (!known(in_header.dtype)) fail<Corrupt>("rank {} sends a message of an unknown type", peer);
    switch (in_header.kind) {
      case Kind::kOffer:
        offers.push_back(in_header);
        answer_offers();
        return;
      case Kind::kAccept: {
        const auto send = first_unanswered();
        send->get()->accepted = true;
        finish_send();
        return;
      }
      case Kind::kRefuse: {
        const auto send = first_unanswered();
        const std::string text =
            describe_message_mismatch(owner.rank(), send->get()->operation->in, peer,
                                      {in_header.dtype, nullptr, static_cast<std::size_t>(in_header.count)});
        const Backend::Done done = std::move(send->get()->done);
        sends.erase(send);
        done(std::make_exception_ptr(InvalidArgument(text)));
        return;
      }
      case Kind::kData: {
        const bool expected = !recvs.empty() && recvs.front()->accepted &&
                              in_header.bytes <= recvs.front()->memory().size() - recvs.front()->moved;
        if (!expected) fail<Corrupt>("rank {} sends data that nobody expects", peer);
        in_left = in_header.bytes;
        return;
      }
    }
    fail<Corrupt>("rank {} sends a message of unknown kind {}", peer, static_cast<std::uint32_t>(in_header.kind));
  }

  std::deque<std::unique_ptr<Posted>>::iterator first_unanswered() {
    const auto send =
        std::ranges::find_if(sends, [](const auto& posted) { return posted->offered && !posted->accepted; });
    if (send == sends.end()) fail<Corrupt>("rank {} answers an offer that was not made", peer);
    return send;
  }

  /// Answers offers for which a recv is posted, one at a time: the data of a message comes before the next is accepted.
  void answer_offers() {
    while (!offers.empty() && !recvs.empty() && !recvs.front()->accepted) {
      const Header offer = offers.front();
      offers.pop_front();
      Posted& recv = *recvs.front();
      const Array& out = recv.operation->out;
      const bool fits = offer.count == out.count && (offer.dtype == out.dtype || out.count == 0);
      out_queue.push_back({.kind = fits ? Kind::kAccept : Kind::kRefuse, .dtype = out.dtype, .count = out.count});
      if (fits) {
        recv.accepted = true;
        if (out.count == 0) end(recvs, nullptr);
      } else {
        const ConstArray sent(offer.dtype, nullptr, offer.count);
        end(recvs, std::make_exception_ptr(InvalidArgument(describe_message_mismatch(peer, sent, owner.rank(), out))));
      }
    }
  }

  static void end(std::deque<std::unique_ptr<Posted>>& list, std::exception_ptr problem) {
    const std::unique_ptr<Posted> ended = std::move(list.front());
    list.pop_front();
    ended->done(std::move(problem));
  }

  void end_all(const std::function<std::exception_ptr(const Posted&)>& why) {
    for (auto* list : {&sends, &recvs}) {
      while (!list->empty()) end(*list, why(*list->front()));
    }
    broken = true;  // perhaps in the middle of a message: nothing can follow it
  }

  Mesh& owner;
  Rank peer;
  Pipe& pipe;
  bool broken = false;
  std::deque<std::unique_ptr<Posted>> sends;
  std::deque<std::unique_ptr<Posted>> recvs;
  std::deque<Header> offers;     // by the peer, with no recv posted yet
  std::deque<Header> out_queue;  // our answers
  Header out_header;
  std::size_t out_header_done = 0;
  std::size_t out_left = 0;  // of header and data
  Header in_header;
  std::size_t in_header_done = 0;
  std::size_t in_left = 0;
};

Messages::Messages(Mesh& mesh) : mesh_(mesh), links_(mesh.size()) {
  for (Rank peer = 0; peer < mesh.size(); ++peer) {
    if (peer != mesh.rank()) links_[peer] = std::make_unique<Link>(mesh, peer);
  }
}

Messages::~Messages() = default;

void Messages::post(const Operation& operation, Deadline deadline, Backend::Done done) {
  Link& link = *links_.at(operation.root);
  if (link.broken) {
    const std::string text = fmt::format("{} cannot begin: an earlier one with this rank failed", describe(operation));
    return done(std::make_exception_ptr(PeerLost(text)));
  }
  auto& list = operation.kind == OperationKind::kSend ? link.sends : link.recvs;
  list.push_back(
      std::make_unique<Posted>(Posted{.operation = &operation, .deadline = deadline, .done = std::move(done)}));
  link.answer_offers();
}

bool Messages::advance() {
  bool moved = false;
  for (const auto& link : links_) {
    if (link && !link->idle()) moved = advance(*link) || moved;
  }
  return moved;
}

bool Messages::advance(Link& link) {
  try {
    return link.advance();
  } catch (const Error&) {
    const std::exception_ptr problem = std::current_exception();
    // A rank that gave up because of another's death also closes its connections: the failure detector knows the first.
    const bool gone = mesh_.failure_detector().wait_broken();
    link.end_all([&](const Posted& posted) { return gone ? lost(posted) : problem; });
    return true;
  }
}

void Messages::check() {
  for (const auto& link : links_) {
    if (!link) continue;
    if (mesh_.failure_detector().broken()) {
      link->end_all([&](const Posted& posted) { return lost(posted); });
      continue;
    }
    if (!link->idle() && mesh_.failure_detector().left(link->peer) && !advance(*link)) {
      link->end_all([&](const Posted& posted) { return lost(posted); });
      continue;
    }
    const auto late = [](const auto& posted) { return posted->deadline.passed(); };
    if (std::ranges::any_of(link->sends, late) || std::ranges::any_of(link->recvs, late)) {
      link->end_all([&](const Posted& posted) { return timeout(posted); });  // the two ranks are out of step now
    }
  }
}

std::exception_ptr Messages::timeout(const Posted& posted) const {
  return std::make_exception_ptr(
      Timeout(fmt::format("{} did not end within {:.1f} s (rank {}): {}", describe(*posted.operation),
                          static_cast<double>(posted.deadline.allowed().count()) / 1000.0, mesh_.rank(),
                          mesh_.failure_detector().give_up(0))));
}

std::exception_ptr Messages::lost(const Posted& posted) const {
  try {
    mesh_.failure_detector().throw_broken(describe(*posted.operation));
  } catch (const Error&) {
    return std::current_exception();
  }
}

bool Messages::empty() const {
  return std::ranges::all_of(links_, [](const auto& link) { return !link || link->idle(); });
}

std::vector<int> Messages::descriptors() const {
  std::vector<int> result;
  for (const auto& link : links_) {
    if (link && !link->idle() && link->pipe.descriptor() >= 0) result.push_back(link->pipe.descriptor());
  }
  return result;
}

}  // namespace trireme::collective
