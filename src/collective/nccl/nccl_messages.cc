#include "collective/nccl/nccl_messages.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "collective/engine_support.h"

namespace trireme::collective {

struct NcclMessages::Posted {
  enum class State { kPosted, kAnnounced, kConnecting, kLaunching, kMoving };

  const Operation* operation;
  Deadline deadline;
  Backend::Done done;
  State state = State::kPosted;

  bool sends() const { return operation->kind == OperationKind::kSend; }
  ConstArray array() const { return sends() ? operation->in : ConstArray(operation->out); }
};

/// One direction between this rank and another: NCCL's rank 0 sends, rank 1 receives.
struct NcclMessages::Link {
  Rank peer;
  bool outgoing;
  ncclUniqueId id = {};                          // made by the sender
  std::unique_ptr<NcclStream> stream = nullptr;  // from the first message on
  std::unique_ptr<Stage> stage = nullptr;
  std::deque<std::unique_ptr<Posted>> posted = {};

  void connect(const ncclUniqueId& with) {
    if (stream) return;
    stream = std::make_unique<NcclStream>(with, outgoing ? 0 : 1, 2);
    stage = std::make_unique<Stage>(stream->stream());
  }

  void launch(const Operation& operation) {
    const std::size_t bytes = outgoing ? operation.in.size_bytes() : operation.out.size_bytes();
    if (outgoing) {
      check(ncclSend(stage->input(operation.in), bytes, ncclInt8, 1, stream->communicator(), stream->stream()),
            "ncclSend");
    } else {
      check(ncclRecv(stage->output(operation.out), bytes, ncclInt8, 0, stream->communicator(), stream->stream()),
            "ncclRecv");
    }
  }

  void end_first(const std::exception_ptr& problem) {
    const std::unique_ptr<Posted> ended = std::move(posted.front());
    posted.pop_front();
    ended->done(problem);
  }
};

NcclMessages::NcclMessages(Rank rank, std::unique_ptr<Communicator> senders, std::unique_ptr<Communicator> receivers)
    : rank_(rank), senders_(std::move(senders)), receivers_(std::move(receivers)) {}

NcclMessages::~NcclMessages() = default;

void NcclMessages::post(const Operation& operation, Deadline deadline, Backend::Done done) {
  const Rank peer = operation.root;
  auto& link = links_[{peer, operation.kind}];
  const bool outgoing = operation.kind == OperationKind::kSend;
  if (!link) {
    link = std::make_unique<Link>(Link{.peer = peer, .outgoing = outgoing});
    if (outgoing) check(ncclGetUniqueId(&link->id), "ncclGetUniqueId");
  }
  link->posted.push_back(
      std::make_unique<Posted>(Posted{.operation = &operation, .deadline = deadline, .done = std::move(done)}));
}

void NcclMessages::advance() {
  senders_.advance();
  receivers_.advance();
  for (const auto& [key, link] : links_) {
    while (!link->posted.empty() && advance(*link)) continue;
    for (const auto& posted : link->posted) {
      if (!posted->deadline.passed()) continue;
      const bool came = posted->state > Posted::State::kAnnounced;
      fail<Timeout>("{} did not end within {:.1f} s (rank {}): rank {} {}", describe(*posted->operation),
                    static_cast<double>(posted->deadline.allowed().count()) / 1000.0, rank_, link->peer,
                    came ? "has stopped in the middle" : "has not come");
    }
  }
}

/// Advances the first message of a link by one state, if possible. Later ones wait for it.
bool NcclMessages::advance(Link& link) {
  Posted& posted = *link.posted.front();
  switch (posted.state) {
    case Posted::State::kPosted:
      announce(link, posted);
      return true;
    case Posted::State::kAnnounced:
      return compare(link, posted);
    case Posted::State::kConnecting:
      if (!link.stream->ready()) return false;
      link.launch(*posted.operation);
      posted.state = Posted::State::kLaunching;
      return true;
    case Posted::State::kLaunching:
      if (!link.stream->ready()) return false;
      if (!link.outgoing) link.stage->begin_copy_back();
      posted.state = Posted::State::kMoving;
      return true;
    case Posted::State::kMoving:
      if (!link.stream->idle()) return false;
      if (!link.outgoing) link.stage->finish_copy_back();
      link.end_first(nullptr);
      return true;
  }
  return false;
}

void NcclMessages::announce(Link& link, Posted& posted) {
  const ConstArray array = posted.array();
  ControlChannel& ours = link.outgoing ? senders_ : receivers_;
  ControlChannel& theirs = link.outgoing ? receivers_ : senders_;
  ours.send(link.peer, {.dtype = array.dtype, .count = array.count, .id = link.id});
  theirs.expect(link.peer);
  posted.state = Posted::State::kAnnounced;
}

bool NcclMessages::compare(Link& link, Posted& posted) {
  const auto message = (link.outgoing ? receivers_ : senders_).take(link.peer);
  if (!message) return false;
  const ConstArray ours = posted.array();
  const ConstArray theirs(message->dtype, nullptr, message->count);
  if (ours.count != theirs.count || (ours.count > 0 && ours.dtype != theirs.dtype)) {
    link.end_first(std::make_exception_ptr(
        InvalidArgument(link.outgoing ? describe_message_mismatch(rank_, ours, link.peer, theirs)
                                      : describe_message_mismatch(link.peer, theirs, rank_, ours))));
  } else if (ours.count == 0) {
    link.end_first(nullptr);
  } else {
    link.connect(link.outgoing ? link.id : message->id);
    posted.state = Posted::State::kConnecting;
  }
  return true;
}

bool NcclMessages::empty() const {
  return std::ranges::all_of(links_, [](const auto& entry) { return entry.second->posted.empty(); });
}

void NcclMessages::abort(const std::string& reason) {
  senders_.abort(reason);
  receivers_.abort(reason);
}

void NcclMessages::end_all(const std::exception_ptr& why) {
  // In parallel: to free what one communicator uses, CUDA may wait for the kernels of all.
  std::vector<std::jthread> threads;
  for (const auto& [key, link] : links_) {
    if (link->stream) threads.emplace_back([&stream = *link->stream] { stream.abort(); });
  }
  threads.clear();
  for (const auto& [key, link] : links_) {
    while (!link->posted.empty()) link->end_first(why);
  }
}

}  // namespace trireme::collective
