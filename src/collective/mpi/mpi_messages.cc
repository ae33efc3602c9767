#include "collective/mpi/mpi_messages.h"

#include <algorithm>

#include "base/error.h"
#include "collective/engine_support.h"

namespace trireme::collective {
namespace {

/// What one side tells the other.
struct Shape {
  DType dtype = DType::kF32;
  std::uint32_t zero = 0;
  std::uint64_t count = 0;
};
static_assert(sizeof(Shape) == 16);

struct Shapes {
  Shape ours;
  Shape theirs;

  bool fit() const { return ours.count == theirs.count && (ours.count == 0 || ours.dtype == theirs.dtype); }
};

bool is_late(const auto& posted) { return posted->deadline.passed(); }

}  // namespace

struct MpiMessages::Posted {
  const Operation* operation;
  Deadline deadline;
  Backend::Done done;
  std::shared_ptr<Shapes> shapes = std::make_shared<Shapes>();
  Requests opening = {};  // offer and answer
  Requests data = {};
  bool compared = false;
  std::exception_ptr problem = nullptr;

  bool sends() const { return operation->kind == OperationKind::kSend; }
  ConstArray array() const { return sends() ? operation->in : ConstArray(operation->out); }

  void end() { done(problem); }
};

MpiMessages::MpiMessages(MpiTransport& transport) : transport_(transport), links_(transport.size()) {}

MpiMessages::~MpiMessages() {
  for (Link& link : links_) {
    for (List* list : {&link.sends, &link.recvs}) {
      for (const auto& posted : *list) {
        MpiTransport::abandon(posted->opening);
        MpiTransport::abandon(posted->data);
      }
    }
  }
}

void MpiMessages::post(const Operation& operation, Deadline deadline, Backend::Done done) {
  const Rank peer = operation.root;
  Link& link = links_.at(peer);
  if (link.broken || transport_.aborted()) {
    const std::string text = fmt::format("{} cannot begin: an earlier one with this rank failed", describe(operation));
    return done(std::make_exception_ptr(PeerLost(text)));
  }
  auto posted =
      std::make_unique<Posted>(Posted{.operation = &operation, .deadline = deadline, .done = std::move(done)});
  const ConstArray array = posted->array();
  posted->shapes->ours = {.dtype = array.dtype, .count = array.count};
  posted->opening.memory = posted->shapes;
  const auto theirs = std::as_writable_bytes(std::span(&posted->shapes->theirs, 1));
  try {
    if (posted->sends()) {
      transport_.recv(posted->opening, peer, MpiTag::kAnswer, theirs);
      transport_.send(posted->opening, peer, MpiTag::kOffer, std::as_bytes(std::span(&posted->shapes->ours, 1)));
    } else {
      transport_.recv(posted->opening, peer, MpiTag::kOffer, theirs);
    }
  } catch (const PeerLost&) {
    posted->problem = std::current_exception();
    MpiTransport::abandon(posted->opening);
    link.broken = true;
    return posted->end();
  }
  (posted->sends() ? link.sends : link.recvs).push_back(std::move(posted));
}

bool MpiMessages::advance() {
  bool ended = false;
  for (Link& link : links_) {
    if (link.sends.empty() && link.recvs.empty()) continue;
    try {
      if (transport_.aborted()) transport_.throw_aborted("a message");
      for (List* list : {&link.sends, &link.recvs}) {
        ended = advance(*list) || ended;
        const auto late = std::ranges::find_if(*list, [](const auto& posted) { return is_late(posted); });
        if (late != list->end()) std::rethrow_exception(timeout(**late));
      }
    } catch (const Error&) {
      end_all(link, std::current_exception());
      ended = true;
    }
  }
  return ended;
}

bool MpiMessages::advance(List& list) {
  std::vector<std::unique_ptr<Posted>> ended;
  bool in_turn = true;
  for (auto& posted : list) {
    // In order, even if a later answer is seen first: the data of both takes the same path.
    if (!posted->compared) in_turn = in_turn && transport_.test(posted->opening) && begin_data(*posted);
    if (!posted->compared || !transport_.test(posted->opening) || !transport_.test(posted->data)) continue;
    ended.push_back(std::move(posted));
  }
  std::erase(list, nullptr);
  for (const auto& posted : ended) posted->end();
  return !ended.empty();
}

/// Called when this side knows both shapes: answers, if still due, and starts to move the data if they match.
bool MpiMessages::begin_data(Posted& posted) {
  const Rank peer = posted.operation->root;
  const Shapes& shapes = *posted.shapes;
  posted.compared = true;
  posted.opening = {.open = {}, .peers = {}, .memory = posted.shapes};
  if (!posted.sends()) {
    transport_.send(posted.opening, peer, MpiTag::kAnswer, std::as_bytes(std::span(&shapes.ours, 1)));
  }
  if (!shapes.fit()) {
    const ConstArray theirs(shapes.theirs.dtype, nullptr, shapes.theirs.count);
    posted.problem = std::make_exception_ptr(
        InvalidArgument(posted.sends() ? describe_message_mismatch(transport_.rank(), posted.array(), peer, theirs)
                                       : describe_message_mismatch(peer, theirs, transport_.rank(), posted.array())));
  } else if (posted.sends()) {
    transport_.send(posted.data, peer, MpiTag::kMessage, posted.operation->in.bytes(), true);
  } else {
    transport_.recv(posted.data, peer, MpiTag::kMessage, posted.operation->out.bytes());
  }
  return true;
}

void MpiMessages::end_all(Link& link, const std::exception_ptr& why) {
  link.broken = true;
  for (List* list : {&link.sends, &link.recvs}) {
    const List ended = std::move(*list);
    list->clear();
    for (const auto& posted : ended) {
      MpiTransport::abandon(posted->opening);
      MpiTransport::abandon(posted->data);
      posted->problem = why;
      posted->end();
    }
  }
}

std::exception_ptr MpiMessages::timeout(const Posted& posted) const {
  return std::make_exception_ptr(
      Timeout(fmt::format("{} did not end within {:.1f} s (rank {}): rank {} {}", describe(*posted.operation),
                          static_cast<double>(posted.deadline.allowed().count()) / 1000.0, transport_.rank(),
                          posted.operation->root, posted.compared ? "has stopped in the middle" : "has not come")));
}

bool MpiMessages::empty() const {
  return std::ranges::all_of(links_, [](const Link& link) { return link.sends.empty() && link.recvs.empty(); });
}

}  // namespace trireme::collective
