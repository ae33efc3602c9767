#include <algorithm>
#include <optional>
#include <thread>

#include "trireme/parameter_server.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "job/job_session.h"
#include "ps/client.h"

namespace trireme::ps {
namespace {

constexpr Lane kLanes = 64;                  // workers may come until each has one of them
constexpr auto kInitialValuesWithin = 600s;  // the chief may read them from files first

bool is_view_failure(const std::exception& problem) {
  return dynamic_cast<const PeerLost*>(&problem) != nullptr || dynamic_cast<const StaleView*>(&problem) != nullptr ||
         dynamic_cast<const Timeout*>(&problem) != nullptr;
}

}  // namespace

class ParameterTables::Impl {
 public:
  Impl(Job& job, std::vector<Table> tables, ParameterTablesOptions options)
      : job_(job.session()),
        tables_(std::move(tables)),
        options_(std::move(options)),
        lanes_(std::max(kLanes, initial_workers())) {
    if (tables_.empty()) fail<InvalidArgument>("there are no tables: name at least one, with its number of elements");
    if (job_.view().servers.empty()) {
      fail<InvalidArgument>(
          "this job has no servers to hold parameters: start it with trireme run --servers 1 or more");
    }
    for (std::uint32_t i = 0; i < tables_.size(); ++i) all_.push_back(i);
    job_.membership().set_plan({.lanes = lanes_, .elastic = true, .strategy = "ps:" + to_string(options_.consistency)});
    if (job_.learner()) regroup("is ready to take part");
    in_view([this] { enter_view(); });
  }

  std::uint32_t index_of(std::string_view name) const {
    const auto found = std::ranges::find(tables_, name, &Table::name);
    if (found == tables_.end()) fail<InvalidArgument>("there is no table '{}'", name);
    return static_cast<std::uint32_t>(found - tables_.begin());
  }

  std::span<float> parameters(std::string_view name) { return client_->parameters(index_of(name)); }
  std::span<float> gradients(std::string_view name) { return client_->gradients(index_of(name)); }

  Step initialise() {
    in_view([this] {
      provide_values();
      take(client_->pull());
    });
    return version_;
  }

  Step pull() {
    in_view([this] { take(client_->pull()); });
    return version_;
  }

  void push(const PushOptions& options) {
    if (pushed_) fail<InvalidArgument>("the last push was not waited for: call wait() first");
    pushed_ = StepInfo{.step = synchronous() ? version_ : clock_,
                       .unit = next_unit(),
                       .samples = options.samples,
                       .lr = options.lr > 0 ? options.lr : options_.lr};
    unsent_because_.clear();
    try {
      send();
    } catch (const std::exception& problem) {  // `wait` continues with the others, and sends it again
      if (!is_view_failure(problem)) throw;
      unsent_because_ = problem.what();
      log_debug("push_interrupted", "a push was interrupted; it is repeated", {{"reason", problem.what()}});
    }
  }

  PushResult wait() {
    if (!pushed_) fail<InvalidArgument>("there is nothing to wait for: call push() first");
    std::optional<StepOutcome> outcome;
    in_view([&] { outcome = finish(); }, [&] { outcome = push_again(); });
    pushed_.reset();
    ++clock_;
    const bool synchronous = options_.consistency.synchronous();
    job_.membership().report({.clock = clock_});
    const PushResult result{.version = version_,
                            .counted = outcome->counted,
                            .stop = outcome->stop || (!synchronous && job_.stop_requested())};
    if (!result.stop && (synchronous ? outcome->regroup : job_.regroup_wanted())) {
      regroup("others want to join or leave");
      pull_in_new_view();
    }
    return result;
  }

  void leave() {
    client_->leave();
    if (job_.chief()) {  // without a result the master would treat the exit of the last worker as a failure
      job_.membership().post_result({{"steps", version_}, {"strategy", "ps:" + to_string(options_.consistency)}});
    }
    job_.membership().leave();
  }

  Step version() const { return version_; }
  std::size_t bytes_moved() const { return client_->traffic().pushed_bytes + client_->traffic().pulled_bytes; }

 private:
  /// While it lives, the failure of the job, or the loss of a member of the view, interrupts the client's waits.
  class FailureHook {
   public:
    explicit FailureHook(Impl& tables) : job_(tables.job_) {
      job_.on_failure([&tables](const std::string& reason) {
        const MutexLock lock(tables.mutex_);
        if (tables.client_) tables.client_->interrupt(reason);
      });
    }
    ~FailureHook() { job_.on_failure(nullptr); }
    FailureHook(const FailureHook&) = delete;
    FailureHook& operator=(const FailureHook&) = delete;

   private:
    JobSession& job_;
  };

  bool synchronous() const { return options_.consistency.synchronous(); }

  std::uint32_t initial_workers() const {
    const cluster::JobEnvironment& place = job_.place();
    return place.initial_workers > 0 ? place.initial_workers : place.workers;
  }

  /// Unique among all pushes of a job: member numbers are never reused.
  std::uint64_t next_unit() { return (first_member_ << 32) + clock_; }

  /// Does `work` in the current view or, if a member is lost meanwhile, `again` in one of the next.
  template <typename Work, typename Again>
  void in_view(Work work, Again again) {
    try {
      return work();
    } catch (const std::exception& problem) {
      if (!is_view_failure(problem)) throw;
      recover(problem.what());
    }
    for (;;) {
      try {
        enter_view();
        return again();
      } catch (const std::exception& problem) {
        if (!is_view_failure(problem)) throw;
        recover(problem.what());
      }
    }
  }

  template <typename Work>
  void in_view(Work work) {
    in_view(work, work);
  }

  /// Goes to the next view that can be entered.
  void recover(std::string reason) {
    for (;;) {
      if (const std::string known = job_.failure(); !known.empty()) fail<PeerLost>("{}", known);
      log_warn("recovery_started", "continues in another view", {{"step", version_}, {"reason", reason}});
      try {
        return regroup(reason);
      } catch (const std::exception& problem) {
        if (!is_view_failure(problem) || over_) throw;
        reason = problem.what();
        std::this_thread::sleep_for(10ms);  // if the master has failed, this will be known soon
      }
    }
  }

  void regroup(const std::string& reason) {
    if (job_.regroup(reason)) return;
    over_ = true;
    fail<PeerLost>("the job has ended without this worker: {}", reason);
  }

  void pull_in_new_view() {
    in_view([this] {
      enter_view();
      take(client_->pull());
    });
  }

  void enter_view() {
    const cluster::ViewInfo view = job_.view();
    const cluster::MemberId member = view.workers[job_.rank()].id;
    if (entered_ == view.view) return;
    if (client_) {
      client_->enter(view, member);
    } else {
      first_member_ = member;
      auto client = std::make_unique<Client>(
          job_.loop(), ClientOptions{.member = member,
                                     .view = view,
                                     .lanes = lanes_,
                                     .secret = job_.place().secret,
                                     .transport = job_.place().transport,
                                     .silent_after = job_.silent_after(),
                                     .waits = &job_.waits(),
                                     .on_unreachable = [this](MemberId server) { job_.note_unreachable(server); }});
      const MutexLock lock(mutex_);
      client_ = std::move(client);
    }
    // Failures that were reported while it connected.
    if (const std::string failure = job_.view_failure(); !failure.empty()) client_->interrupt(failure);
    if (!std::exchange(opened_, true)) {
      std::vector<TableSpec> specs;
      for (const Table& table : tables_) specs.push_back({table.name, table.elements});
      client_->open(std::move(specs), {.update = options_.optimizer,
                                       .consistency = options_.consistency,
                                       .placement = {},
                                       .codec = options_.codec});
    }
    entered_ = view.view;
  }

  /// Returns once the servers have values.
  void provide_values() {
    const LoadStatus there = client_->load_status();
    if (there.complete()) return;
    if (job_.chief() && there.assigned == 0 && version_ == 0) return client_->assign();
    if (job_.chief()) {
      fail<InvalidArgument>(
          "the parameters are lost: no server that held them is left; two servers keep copies for each other "
          "(--servers 2)");
    }
    const Deadline deadline = Deadline::in(kInitialValuesWithin);
    while (!client_->load_status().complete()) {
      if (deadline.passed()) {
        fail<Timeout>("the chief sent no initial values within {:.0f} s: does it call initialise()?",
                      seconds(kInitialValuesWithin));
      }
      std::this_thread::sleep_for(2ms);
    }
  }

  void take(const StepOutcome& outcome) { version_ = synchronous() ? outcome.oldest : outcome.newest; }

  void send() {
    pushed_->lanes = job_.view().deal(lanes_)[job_.rank()];
    pushed_->stop = synchronous() && job_.stop_requested();
    pushed_->regroup = job_.regroup_wanted();
    client_->push(all_, *pushed_);
  }

  StepOutcome finish() {
    if (!unsent_because_.empty()) fail<PeerLost>("{}", unsent_because_);
    const StepOutcome outcome = client_->finish();
    take(outcome);
    return outcome;
  }

  /// In a later view. The step may have taken effect before the failure, everywhere or on some servers only: what has
  /// counted is not counted again.
  StepOutcome push_again() {
    provide_values();
    const StepOutcome there = client_->pull();
    if (synchronous() && there.oldest > pushed_->step) {
      take(there);
      return there;
    }
    unsent_because_.clear();
    send();
    return finish();
  }

  JobSession& job_;
  const std::vector<Table> tables_;
  const ParameterTablesOptions options_;
  const Lane lanes_;
  std::vector<std::uint32_t> all_;  // tables
  View entered_ = 0;
  bool opened_ = false;  // the tables: also if that failed half-way
  bool over_ = false;    // the job has ended
  Step version_ = 0;     // of the parameters that are here
  Step clock_ = 0;       // pushes of this worker
  std::uint64_t first_member_ = 0;
  std::optional<StepInfo> pushed_;  // and not waited for
  std::string unsent_because_;      // of that: not empty = the view ended before all of it was sent
  Mutex mutex_;                     // for the job's failure; only the caller's thread sets the client
  std::unique_ptr<Client> client_;
  FailureHook failure_hook_{*this};  // last: destroyed first, also if the constructor throws
};

ParameterTables::ParameterTables(Job& job, std::vector<Table> tables, ParameterTablesOptions options)
    : impl_(std::make_unique<Impl>(job, std::move(tables), std::move(options))) {}

ParameterTables::~ParameterTables() = default;

std::span<float> ParameterTables::parameters(std::string_view table) { return impl_->parameters(table); }

std::span<float> ParameterTables::gradients(std::string_view table) { return impl_->gradients(table); }

Step ParameterTables::initialise() { return impl_->initialise(); }

Step ParameterTables::pull() { return impl_->pull(); }

void ParameterTables::push(const PushOptions& options) { impl_->push(options); }

PushResult ParameterTables::wait() { return impl_->wait(); }

void ParameterTables::leave() { impl_->leave(); }

Step ParameterTables::version() const { return impl_->version(); }

std::size_t ParameterTables::bytes_moved() const { return impl_->bytes_moved(); }

}  // namespace trireme::ps
