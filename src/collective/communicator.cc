#include "collective/communicator.h"

#include <deque>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "collective/native/native_backend.h"
#include "net/event_loop.h"
#include "net/message_codec.h"

namespace trireme::collective {

struct Handle::State {
  Operation operation;
  std::function<void()> task;  // run instead of an operation
  Deadline deadline = Deadline::in(0s);
  Deadline::Clock::time_point not_before;

  std::optional<WaitBoard::Entry> waits;  // while it is in progress

  mutable Mutex mutex;
  Condition ended;
  bool done TRIREME_GUARDED_BY(mutex) = false;
  std::optional<net::ErrorBody> problem TRIREME_GUARDED_BY(mutex);  // a value: each thread throws its own copy

  void end(const std::exception_ptr& how) {
    {
      const MutexLock lock(mutex);
      if (done) return;
      done = true;
      try {
        if (how) std::rethrow_exception(how);
      } catch (const std::exception& thrown) {
        problem = net::describe_error(thrown);
      }
    }
    ended.notify_all();
  }

  /// Waits until it has ended; throws its error. Bounded, because every operation before it in the queue ends by its
  /// own deadline.
  void wait_ended() {
    const MutexLock lock(mutex);
    ended.wait(mutex, [this]() TRIREME_REQUIRES(mutex) { return done; });
    throw_problem();
  }

  void throw_problem() const TRIREME_REQUIRES(mutex) {
    if (problem) net::throw_error(*problem);
  }
};

void Handle::wait(Deadline deadline) {
  TRIREME_CHECK(state_ != nullptr, "a handle of no operation");
  const MutexLock lock(state_->mutex);
  if (!state_->ended.wait(state_->mutex, deadline, [this]() TRIREME_REQUIRES(state_->mutex) { return state_->done; })) {
    fail<Timeout>("{} has not ended yet after {:.1f} s of waiting for it", describe(state_->operation),
                  static_cast<double>(deadline.allowed().count()) / 1000.0);
  }
  state_->throw_problem();
}

void Handle::wait() {
  TRIREME_CHECK(state_ != nullptr, "a handle of no operation");
  // Its own deadline ends it; the margin is for the time until that is noticed.
  wait(Deadline::in(state_->deadline.left() + 5s));
}

bool Handle::poll() const {
  TRIREME_CHECK(state_ != nullptr, "a handle of no operation");
  const MutexLock lock(state_->mutex);
  return state_->done;
}

namespace {

/// Stands in for the backend while there is none: after a reconfiguration that failed.
class Disconnected final : public Backend {
 public:
  Disconnected(Rank rank, std::uint32_t size) : rank_(rank), size_(size) {}

  Rank rank() const override { return rank_; }
  std::uint32_t size() const override { return size_; }
  std::string transport() const override { return "none"; }
  void run(const Operation& /*operation*/, Deadline /*deadline*/) override { refuse(); }
  void post(const Operation& /*operation*/, Deadline /*deadline*/, Done /*done*/) override { refuse(); }
  bool progress() override { return false; }
  std::shared_ptr<std::byte> allocate(std::size_t /*bytes*/, Deadline /*deadline*/) override { refuse(); }
  void abort(const std::string& /*reason*/) override {}
  Traffic traffic() const override { return {}; }

 private:
  [[noreturn]] static void refuse() { fail<PeerLost>("the group is not connected: reconfigure it"); }

  Rank rank_;
  std::uint32_t size_;
};

}  // namespace

/// Calls in order: a blocking call with nothing before it runs on the caller's thread, everything else on a background
/// thread that is started when first needed.
class Communicator::Engine {
 public:
  using StatePtr = std::shared_ptr<Handle::State>;

  Engine(Endpoint* endpoint, std::unique_ptr<Backend> backend, CommunicatorOptions options)
      : endpoint_(endpoint),
        options_(std::move(options)),
        backend_(std::move(backend)),
        in_the_view_(options_.in_the_view),
        active_(backend_.get()) {}

  ~Engine() { stop("the communicator is gone"); }

  std::shared_ptr<Backend> backend() {
    const MutexLock lock(mutex_);
    return backend_;
  }
  Endpoint* endpoint() { return endpoint_; }
  const CommunicatorOptions& options() const { return options_; }

  void run(Operation operation, Deadline deadline) {
    if (!is_message(operation) && options_.latency.count() == 0) {
      if (turn_.try_lock()) {
        const MutexLock turn(turn_, std::adopt_lock);
        if (idle()) {
          validate(operation, active_->rank(), active_->size());
          const WaitBoard::Entry entry(options_.waits, [this, &operation] { return awaited(operation); });
          return run_here([&]() TRIREME_REQUIRES(turn_) { active_->run(operation, deadline); });
        }
      }
    }
    enqueue(std::move(operation), deadline)->wait_ended();
  }

  void run(std::vector<Operation> group, Deadline deadline) {
    for (Operation& operation : group) complete(operation);
    std::vector<StatePtr> states;
    std::exception_ptr problem;
    try {
      for (Operation& operation : group) states.push_back(enqueue(std::move(operation), deadline));
    } catch (...) {
      problem = std::current_exception();
    }
    for (const StatePtr& state : states) {  // all of them, because they use the caller's memory
      try {
        state->wait_ended();
      } catch (...) {
        if (!problem) problem = std::current_exception();
      }
    }
    if (problem) std::rethrow_exception(problem);
  }

  void complete(Operation& operation) {
    const auto current = backend();
    validate(operation, current->rank(), current->size());
  }

  StatePtr enqueue(Operation operation, Deadline deadline) {
    complete(operation);
    auto state = std::make_shared<Handle::State>();
    state->operation = std::move(operation);
    state->deadline = deadline;
    state->not_before = Deadline::Clock::now() + options_.latency;
    enqueue(state);
    return state;
  }

  void enqueue(const StatePtr& state) {
    std::shared_ptr<Backend> current;
    {
      const MutexLock lock(mutex_);
      if (!broken_.empty()) fail<PeerLost>("{}", broken_);
      queue_.push_back(state);
      busy_ = true;
      if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
      current = backend_;
    }
    work_.notify_one();
    current->wake();  // it may wait for a message that was posted before
  }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) {
    std::shared_ptr<std::byte> memory;
    const auto task = [&]() TRIREME_REQUIRES(turn_) {
      memory = active_->allocate(bytes, Deadline::in(options_.deadline));
    };
    if (turn_.try_lock()) {
      const MutexLock turn(turn_, std::adopt_lock);
      if (idle()) {
        run_here(task);
        return memory;
      }
    }
    const auto state = std::make_shared<Handle::State>();  // after what was started before
    state->task = task;
    enqueue(state);
    state->wait_ended();
    return memory;
  }

  void set_observer(Observer observer) {
    const MutexLock turn(turn_);
    observer_ = std::move(observer);
  }

  void abort(const std::string& reason) {
    note_broken(reason);
    backend()->abort(reason);
  }

  void reconfigure(Rank rank, View view, std::vector<net::Address> members) {
    if (endpoint_ == nullptr) fail<InvalidArgument>("only the native backend can go on in another view");
    if (view <= options_.view) fail<InvalidArgument>("view {} does not come after view {}", view, options_.view);
    stop("the communicator goes on in another view");
    const MutexLock turn(turn_);
    // The old connections end now, so that peers that still wait for us notice.
    replace_backend(std::make_shared<Disconnected>(rank, static_cast<std::uint32_t>(members.size())));
    options_.rank = rank;
    options_.view = view;
    options_.members = std::move(members);
    try {
      replace_backend(connect(*endpoint_, options_));
    } catch (const std::exception& problem) {
      const MutexLock lock(mutex_);
      broken_ = fmt::format("the group could not go on in view {}: {}", view, problem.what());
      throw;
    }
    const MutexLock lock(mutex_);
    in_the_view_.clear();
    broken_.clear();
    busy_ = false;
  }

  Traffic traffic() {
    const MutexLock lock(mutex_);
    return sum(past_, backend_->traffic());
  }

  static std::unique_ptr<Backend> connect(Endpoint& endpoint, const CommunicatorOptions& options) {
    return std::make_unique<NativeBackend>(endpoint,
                                           MeshOptions{.rank = options.rank,
                                                       .view = options.view,
                                                       .members = options.members,
                                                       .group = options.group,
                                                       .transport = options.transport,
                                                       .bits_per_second = options.bits_per_second,
                                                       .deadline = Deadline::in(options.connect_within),
                                                       .silent_after = options.silent_after},
                                           options.trace_algorithms);
  }

 private:
  static Traffic sum(const Traffic& a, const Traffic& b) {
    return {a.operations + b.operations, a.sent_bytes + b.sent_bytes, a.shared_bytes + b.shared_bytes};
  }

  void replace_backend(std::shared_ptr<Backend> next) TRIREME_REQUIRES(turn_) {
    const MutexLock lock(mutex_);
    past_ = sum(past_, backend_->traffic());
    active_ = next.get();
    backend_.swap(next);  // the old one is destroyed without the lock
  }

  static bool is_message(const Operation& operation) {
    return operation.kind == OperationKind::kSend || operation.kind == OperationKind::kRecv;
  }

  bool idle() {
    const MutexLock lock(mutex_);
    return !busy_;
  }

  void throw_if_broken() {
    const MutexLock lock(mutex_);
    if (!broken_.empty()) fail<PeerLost>("{}", broken_);
  }

  template <typename Work>
  void run_here(Work work) TRIREME_REQUIRES(turn_) {
    throw_if_broken();
    try {
      work();
    } catch (const InvalidArgument&) {
      throw;
    } catch (const std::exception& problem) {
      note_broken(problem.what());
      throw;
    }
  }

  void note_broken(const std::string& reason) {
    const MutexLock lock(mutex_);
    if (broken_.empty()) {
      broken_ = fmt::format("the group cannot go on before it is reconfigured: {}", reason);
    }
  }

  void work(const std::stop_token& stop) {
    net::name_thread("collective-work");
    while (!stop.stop_requested()) {
      StatePtr state;
      {
        const MutexLock lock(mutex_);
        if (queue_.empty() && !posted_) {
          busy_ = false;
          work_.wait(mutex_, stop, [this]() TRIREME_REQUIRES(mutex_) { return !queue_.empty(); });
          if (stop.stop_requested()) return;
        }
        if (!queue_.empty()) {
          state = std::move(queue_.front());
          queue_.pop_front();
        }
      }
      const MutexLock turn(turn_);
      if (state) carry_out(state, stop);
      if (posted_) posted_ = active_->progress();
    }
  }

  /// Runs on the background thread.
  void carry_out(const StatePtr& state, const std::stop_token& stop) TRIREME_REQUIRES(turn_) {
    try {
      throw_if_broken();
      hold_back(state->not_before, stop);
      if (state->task) {
        state->task();
        return state->end(nullptr);
      }
      state->waits.emplace(options_.waits, [this, &operation = state->operation] { return awaited(operation); });
      if (is_message(state->operation)) {
        posted_ = true;
        active_->post(state->operation, state->deadline, [this, state](const std::exception_ptr& problem) {
          if (problem) note_if_fatal(problem);
          state->waits.reset();
          state->end(problem);
        });
        return;
      }
      const auto began = Deadline::Clock::now();
      active_->run(state->operation, state->deadline);
      if (observer_) observer_(state->operation, began, Deadline::Clock::now());
      state->waits.reset();
      state->end(nullptr);
    } catch (...) {
      state->waits.reset();
      note_if_fatal(std::current_exception());
      state->end(std::current_exception());
    }
  }

  /// What an operation in progress waits for.
  AwaitedWork awaited(const Operation& operation) {
    const std::string label = operation.label.empty() ? "" : fmt::format(" ({})", operation.label);
    AwaitedWork work{.what = describe(operation) + label};
    const std::vector<Rank> missing = is_message(operation) ? std::vector{operation.root} : backend()->behind();
    const MutexLock lock(mutex_);
    for (const Rank rank : missing) work.workers.push_back(in_the_view_.empty() ? rank : in_the_view_.at(rank));
    return work;
  }

  void note_if_fatal(const std::exception_ptr& problem) {
    try {
      std::rethrow_exception(problem);
    } catch (const InvalidArgument&) {
      // the ranks disagreed, and all of them know: they can go on
    } catch (const std::exception& fatal) {
      note_broken(fatal.what());
    }
  }

  /// Simulates the latency of a link: an operation starts late, but several can be in flight at the same time.
  void hold_back(Deadline::Clock::time_point until, const std::stop_token& stop) {
    while (!stop.stop_requested() && Deadline::Clock::now() < until) {
      std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(1ms, until - Deadline::Clock::now()));
      throw_if_broken();
    }
  }

  /// Ends the background thread and every pending operation.
  void stop(const std::string& reason) {
    {
      const MutexLock lock(mutex_);
      if (broken_.empty()) broken_ = reason;
    }
    backend()->abort(reason);
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
      thread_ = {};
    }
    const MutexLock turn(turn_);
    while (posted_) posted_ = active_->progress();  // ends what is posted: the group is broken
    std::deque<StatePtr> left;
    {
      const MutexLock lock(mutex_);
      left.swap(queue_);
    }
    for (const StatePtr& state : left) state->end(std::make_exception_ptr(PeerLost(reason)));
  }

  Endpoint* endpoint_;
  CommunicatorOptions options_;
  Mutex mutex_;
  std::shared_ptr<Backend> backend_ TRIREME_GUARDED_BY(mutex_);  // replaced with turn_ held as well
  Traffic past_ TRIREME_GUARDED_BY(mutex_);                      // of earlier backends
  std::vector<Rank> in_the_view_ TRIREME_GUARDED_BY(mutex_);     // see CommunicatorOptions
  StoppableCondition work_;
  std::deque<StatePtr> queue_ TRIREME_GUARDED_BY(mutex_);
  bool busy_ TRIREME_GUARDED_BY(mutex_) = false;   // the background thread has something to do
  std::string broken_ TRIREME_GUARDED_BY(mutex_);  // why nothing works any more

  Mutex turn_;
  Backend* active_ TRIREME_GUARDED_BY(turn_);  // backend_, for the holder of turn_
  Observer observer_ TRIREME_GUARDED_BY(turn_);

  bool posted_ = false;  // sends or receives are in progress; only used by the thread, or after joining it
  std::jthread thread_;
};

Communicator::Communicator(Endpoint& endpoint, CommunicatorOptions options) {
  auto backend = Engine::connect(endpoint, options);
  engine_ = std::make_unique<Engine>(&endpoint, std::move(backend), std::move(options));
}

Communicator::Communicator(std::shared_ptr<Endpoint> endpoint, CommunicatorOptions options)
    : Communicator(*endpoint, std::move(options)) {
  endpoint_ = std::move(endpoint);
}

Communicator::Communicator(std::unique_ptr<Backend> backend)
    : Communicator(std::move(backend), CommunicatorOptions{}) {}

Communicator::Communicator(std::unique_ptr<Backend> backend, CommunicatorOptions options)
    : engine_(std::make_unique<Engine>(nullptr, std::move(backend), std::move(options))) {}

Communicator::~Communicator() = default;

Rank Communicator::rank() const { return engine_->backend()->rank(); }
std::uint32_t Communicator::size() const { return engine_->backend()->size(); }
View Communicator::view() const { return engine_->options().view; }
std::string Communicator::transport() const { return engine_->backend()->transport(); }
Traffic Communicator::traffic() const { return engine_->traffic(); }

void Communicator::run(Operation operation) { run(std::move(operation), Deadline::in(engine_->options().deadline)); }

void Communicator::run(Operation operation, Deadline deadline) { engine_->run(std::move(operation), deadline); }

void Communicator::run(std::vector<Operation> group) {
  engine_->run(std::move(group), Deadline::in(engine_->options().deadline));
}

Handle Communicator::start(Operation operation) {
  return Handle(engine_->enqueue(std::move(operation), Deadline::in(engine_->options().deadline)));
}

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) { return engine_->allocate(bytes); }

std::unique_ptr<Communicator> Communicator::subgroup(const std::string& name, const std::vector<Rank>& ranks) {
  if (engine_->endpoint() == nullptr) fail<InvalidArgument>("subgroups need the native backend");
  CommunicatorOptions options = engine_->options();
  const auto self = std::ranges::find(ranks, rank());
  const bool ascending = std::ranges::adjacent_find(ranks, std::greater_equal<>()) == ranks.end();
  if (self == ranks.end() || !ascending || ranks.back() >= size()) {
    fail<InvalidArgument>("subgroup '{}': ranks must be strictly ascending, below {}, and rank {} among them", name,
                          size(), rank());
  }
  std::vector<net::Address> members;
  std::vector<Rank> in_the_view;
  for (const Rank rank : ranks) {
    members.push_back(options.members[rank]);
    in_the_view.push_back(options.in_the_view.empty() ? rank : options.in_the_view[rank]);
  }
  options.in_the_view = std::move(in_the_view);
  options.members = std::move(members);
  options.rank = static_cast<Rank>(self - ranks.begin());
  options.group += "/" + name;
  return std::make_unique<Communicator>(*engine_->endpoint(), std::move(options));
}

void Communicator::abort(const std::string& reason) { engine_->abort(reason); }

void Communicator::reconfigure(Rank rank, View view, std::vector<net::Address> members) {
  engine_->reconfigure(rank, view, std::move(members));
}

void Communicator::set_observer(Observer observer) { engine_->set_observer(std::move(observer)); }

}  // namespace trireme::collective
