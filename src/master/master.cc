#include "master/master.h"

#include <optional>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "master/job_state.h"

namespace trireme::master {
namespace {

net::ServiceOptions service_options(const MasterOptions& options) {
  net::ServiceOptions service = options.service;
  service.listener.share_memory = false;  // messages are small and rare
  service.listener.role = "master";
  return service;
}

}  // namespace

/// The state of the job, behind a lock, with a service and a clock.
class Master::Impl final : public net::RequestHandler {
 public:
  explicit Impl(const MasterOptions& options)
      : log_entry_(options.log_entry),
        state_(options, Deadline::Clock::now(), [this](const SavedText& changes) TRIREME_REQUIRES(mutex_) {
          unsaved_ = changes;
          to_save_.notify_one();
        }) {
    service_.emplace(service_options(options), *this);
    watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    save_ = std::jthread([this](const std::stop_token& stop) { save(stop); });
  }

  ~Impl() override {
    watch_.request_stop();
    watch_.join();
    service_.reset();
    save_.request_stop();
    save_.join();
  }

  const net::Address& address() const { return service_->address(); }

  /// Calls `question` on the state of the job, with the lock held.
  template <typename Question>
  auto ask(Question question) const {
    const MutexLock lock(mutex_);
    return question(state_);
  }

  template <typename Order>
  void apply(Order order) {
    const MutexLock lock(mutex_);
    order(state_);
  }

  void on_request(const net::SessionPtr& session, net::InFrame frame) override {
    const auto& header = frame.header;
    const Bytes body = frame.body_bytes();
    const MutexLock lock(mutex_);
    const auto now = Deadline::Clock::now();
    switch (header.kind) {
      case cluster::kJoin:
        return state_.join(now, session, header, net::decode_message<cluster::JoinRequest>(body));
      case cluster::kHeartbeat:
        return session->reply(header,
                              state_.heartbeat(now, session->id(), net::decode_message<cluster::Heartbeat>(body)));
      case cluster::kLease:
        return session->reply(header, state_.lease(now, net::decode_message<cluster::LeaseRequest>(body)));
      case cluster::kStatus:
        return session->reply(header, state_.status(now));
      case cluster::kClaimSlot:
        return session->reply(header, state_.claim(net::decode_message<cluster::SlotClaimRequest>(body).role));
      case cluster::kRecord:
        return session->reply(header, state_.record(now, net::decode_message<cluster::RecordRequest>(body)));
      case cluster::kSpans:
        state_.add_spans(net::decode_message<cluster::SpanReport>(body));
        return session->reply(header, cluster::Done{});
      case cluster::kRecorded:
        return session->reply(header, state_.recorded(net::decode_message<cluster::RecordedQuery>(body)));
      case cluster::kCheckpoint:
        state_.checkpoint(now, net::decode_message<cluster::CheckpointNow>(body));
        break;
      case cluster::kPlan:
        state_.set_plan(now, net::decode_message<cluster::Plan>(body));
        break;
      case cluster::kRewind:
        state_.rewind(net::decode_message<cluster::RewindRequest>(body));
        break;
      case cluster::kResult:
        state_.set_result(net::decode_message<cluster::ResultReport>(body));
        break;
      case cluster::kStop:
        state_.stop(net::decode_message<cluster::StopRequest>(body));
        break;
      case cluster::kScale:
        state_.scale(now, net::decode_message<cluster::ScaleRequest>(body));
        break;
      case cluster::kLeave:
        state_.leave(now, net::decode_message<cluster::LeaveNotice>(body));
        break;
      default:
        fail<InvalidArgument>("the master does not know request kind {}", header.kind);
    }
    state_.when_saved([session, header] { session->reply(header, cluster::Done{}); });
  }

  void on_disconnect(const net::SessionPtr& session, const std::string& /*reason*/) override {
    const MutexLock lock(mutex_);
    state_.disconnected(Deadline::Clock::now(), session->id());
  }

 private:
  void watch(const std::stop_token& stop) {
    net::name_thread("master-watch");
    while (!stop.stop_requested()) {
      sleep_for(stop, 100ms);
      const MutexLock lock(mutex_);
      state_.tick(Deadline::Clock::now());
    }
  }

  /// Saves without the lock: members are answered while the store takes its time.
  void save(const std::stop_token& stop) {
    net::name_thread("master-save");
    for (;;) {
      SavedText changes;
      {
        const MutexLock lock(mutex_);
        to_save_.wait(mutex_, stop, [this]() TRIREME_REQUIRES(mutex_) { return unsaved_.has_value(); });
        if (stop.stop_requested()) return;
        changes = *std::exchange(unsaved_, std::nullopt);
      }
      const SaveResult result = save_to(log_entry_, changes);
      const MutexLock lock(mutex_);
      state_.saved(Deadline::Clock::now(), result);
    }
  }

  const MasterLogEntry log_entry_;
  mutable Mutex mutex_;
  StoppableCondition to_save_;
  std::optional<SavedText> unsaved_ TRIREME_GUARDED_BY(mutex_);  // what the saving thread has to do next
  JobState state_ TRIREME_GUARDED_BY(mutex_);
  std::optional<net::Service> service_;
  std::jthread watch_;
  std::jthread save_;
};

Master::Master(const MasterOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Master::~Master() = default;

const net::Address& Master::address() const { return impl_->address(); }

cluster::JobStatus Master::status() const {
  return impl_->ask([](const JobState& state) { return state.status(Deadline::Clock::now()); });
}

void Master::stop(const std::string& reason) {
  impl_->apply([&](JobState& state) { state.stop({reason}); });
}

void Master::scale(const cluster::ScaleRequest& request) {
  impl_->apply([&](JobState& state) { state.scale(Deadline::Clock::now(), request); });
}

void Master::checkpoint(const std::string& reason) {
  impl_->apply([&](JobState& state) { state.checkpoint(Deadline::Clock::now(), {reason}); });
}

std::uint64_t Master::record(Step steps) {
  std::uint64_t request = 0;
  impl_->apply([&](JobState& state) { request = state.record(Deadline::Clock::now(), {steps}).request; });
  return request;
}

cluster::CollectedSpans Master::recorded(std::uint64_t request) const {
  return cluster::collect_spans(request, [this](const cluster::RecordedQuery& query) {
    return impl_->ask([&](const JobState& state) { return state.recorded(query); });
  });
}

bool Master::over() const {
  return impl_->ask([](const JobState& state) { return state.over(); });
}

bool Master::no_members_left() const {
  return impl_->ask([](const JobState& state) { return state.no_members_left(); });
}

bool Master::lost_leadership() const {
  return impl_->ask([](const JobState& state) { return state.lost_leadership(); });
}

}  // namespace trireme::master
