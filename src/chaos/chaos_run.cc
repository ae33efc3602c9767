#include "chaos/chaos_run.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "chaos/connections.h"
#include "chaos/fault_injector.h"
#include "chaos/usage_log.h"
#include "launch/job/running_job.h"
#include "launch/signal_watcher.h"

namespace trireme::chaos {
namespace {

using observe::trace_clock;

constexpr auto kLookAtProcesses = 50ms;
constexpr auto kLastStep = 60s;       // time to end gracefully
constexpr std::size_t kRecent = 256;  // events before a fault that show the state before it

/// What the model achieved on the test set.
std::vector<NamedValue> scores_of(const nlohmann::json& result) {
  std::vector<NamedValue> scores;
  if (!result.is_object()) return scores;
  for (const auto& [name, value] : result.items()) {
    if (name.starts_with("test_") && value.is_number()) scores.push_back({name.substr(5), value.get<double>()});
  }
  return scores;
}

/// The hash with which a run can be compared; empty if its result has none.
std::string hash_in(const nlohmann::json& result) {
  if (!result.is_object()) return "";
  return result.value("parameters_sha256", result.value("state_sha256", ""));
}

class ChaosRun {
 public:
  explicit ChaosRun(const ChaosOptions& options) : options_(options), work_(options.work), plan_(options.plan) {
    const auto wants = [&](FaultKind kind) { return std::ranges::count(options.plan.kinds, kind) > 0; };
    if (wants(FaultKind::kCut)) check_cutting_is_possible();
    FaultInjectorOptions injector{.stop_for = options.stop_for};
    if (wants(FaultKind::kDiskFull)) injector.disk = options.folder / "disturbed" / "checkpoints";
    injector_.emplace(injector);
  }

  ChaosReport run() {
    ChaosReport report{
        .planned = options_.plan.count, .not_compared = options_.not_compared, .folder = options_.folder.string()};
    if (report.not_compared.empty()) report.not_compared = why_bits_may_differ(work_);
    if (options_.reference) run_reference(report);
    run_disturbed(report);
    if (is_program() && differs(report)) repeat_reference(report);
    return report;
  }

 private:
  ObservedRun start(const std::string& name) {
    return {supervisor_, options_.command, options_.folder / name, options_.folder / "logs" / (name + ".log"),
            work_.lanes};
  }

  bool is_program() const { return !options_.command.program.empty(); }

  bool soaks() const { return options_.soak > 0ms; }

  void notice_signal() {
    if (signals_.take() == launch::StopRequest::kNone) return;
    supervisor_.stop(10s);
    while (supervisor_.alive() > 0) supervisor_.wait(Deadline::in(1s));
    fail<Error>("stopped before the chaos run was over; what there is lies in {}", options_.folder.string());
  }

  void run_reference(ChaosReport& report) {
    options_.say("first the same training undisturbed");
    ObservedRun training = start("reference");
    std::optional<Deadline> stop_at;
    while (training.watch(signals_.descriptor())) {
      notice_signal();
      if (!soaks() || training.events().empty()) continue;
      if (!stop_at)
        stop_at =
            Deadline::in(std::clamp(options_.soak / 10, std::chrono::milliseconds(5s), std::chrono::milliseconds(30s)));
      stop_if_due(training, *stop_at);
    }
    if (const std::string failure = training.failure(); !failure.empty()) {
      fail<Error>("the undisturbed training failed already: {}", failure);
    }
    const auto events = training.sorted_events();
    if (is_program()) learn_program(report, events, training.result());
    report.reference = pace_of(events, work_.lanes);
    report.reference_scores = scores_of(training.result());
    if (report.not_compared.empty()) report.reference_sha256 = hash_in(training.result());
    options_.say(
        fmt::format("{:.0f} steps in {:.1f} s; now with faults", report.reference->steps, report.reference->seconds));
  }

  /// Finds out from its undisturbed run what there is to count and to compare.
  void learn_program(ChaosReport& report, Events events, const nlohmann::json& result) {
    const auto begins = [](const observe::StepEvent& event) { return event.kind == observe::StepEvent::Kind::kBegin; };
    if (std::ranges::none_of(events, begins)) {
      fail<Error>(
          "the undisturbed run of {} left no trace of its steps, so there is nothing to disturb or to check: a program "
          "trains with a Trainer, or in dist::elastic with a DistributedOptimizer in its dist::State",
          options_.command.program.front());
    }
    work_ = work_seen_in(events);
    const std::string strategy = result.value("strategy", "");
    work_.averages = strategy.starts_with("local-sgd");
    work_.rolls_back = work_.averages || strategy.starts_with("zero");
    report.counted = "lanes";
    report.compared = result.contains("parameters_sha256") ? "parameters" : "state";
    if (report.not_compared.empty()) report.not_compared = why_bits_may_differ(work_);
    if (report.not_compared.empty() && hash_in(result).empty()) {
      report.not_compared = "the program's result has no hash of them";
    }
  }

  static bool differs(const ChaosReport& report) {
    return report.failure.empty() && report.not_compared.empty() && report.parameters_sha256 != report.reference_sha256;
  }

  /// The disturbed run of a program ended differently: it may be the program that never ends in the same way.
  void repeat_reference(ChaosReport& report) {
    options_.say(fmt::format("it did not end with the same {}: undisturbed once more, to see whether it ever does",
                             report.compared));
    ObservedRun training = start("reference-again");
    while (training.watch(signals_.descriptor())) notice_signal();
    report.reproducible = training.failure().empty() && hash_in(training.result()) == report.reference_sha256;
  }

  /// Stops the training when it is due: first gracefully, later by force.
  void stop_if_due(const ObservedRun& training, const Deadline& at) {
    if (!at.passed()) return;
    if (!asked_) training.ask_to_stop();
    if (!asked_) asked_ = Deadline::in(kLastStep);
    if (asked_->passed()) supervisor_.stop(5s);
  }

  void run_disturbed(ChaosReport& report) {
    asked_.reset();
    ObservedRun training = start("disturbed");
    std::optional<Deadline> stop_at;
    while (training.watch(signals_.descriptor())) {
      notice_signal();
      injector_->tick();
      if (training.events().empty()) continue;
      look_at_processes(training);
      await_recoveries(training);
      if (soaks()) {
        if (!stop_at) stop_at = Deadline::in(options_.soak);
        usage_.sample(training.launcher(), processes_);
        if (pending_.empty() || asked_) stop_if_due(training, *stop_at);
      }
      if (options_.stop_after_faults && plan_.finished() && pending_.empty()) stop_if_due(training, Deadline::in(0s));
      if (!asked_ && !(stop_at && stop_at->passed())) inject_if_due(training);
    }
    const auto events = training.sorted_events();
    const nlohmann::json result = training.result();
    report.failure = training.failure();
    report.recoveries = find_recoveries(faults_, events);
    if (!report.failure.empty()) {  // what happened after the fault that ended the run was no recovery
      for (const PendingFault& pending : pending_) report.recoveries[pending.number].seconds.reset();
    }
    report.pace = pace_of(events, work_.lanes);
    report.scores = scores_of(result);
    report.parameters_sha256 = hash_in(result);
    WorkPlan work = work_;
    work.steps = result.is_null() ? training.step() : result.value("steps", Step{0});
    report.audit = audit_work(events, work);
    if (soaks()) report.growth = usage_.judge();
  }

  void look_at_processes(const ObservedRun& training) {
    if (!next_look_.passed()) return;
    next_look_ = Deadline::in(kLookAtProcesses);
    processes_ = training.processes();
  }

  const JobProcess* find_process(FaultRole role, std::uint32_t slot) const {
    const auto found = std::ranges::find_if(
        processes_, [&](const JobProcess& process) { return process.role == role && process.slot == slot; });
    return found == processes_.end() ? nullptr : &*found;
  }

  /// A fault from which the job has not recovered yet.
  struct PendingFault {
    std::size_t number = 0;       // index in faults_
    std::size_t first_event = 0;  // the first that matters for it
    Deadline give_up;
  };

  void await_recoveries(const ObservedRun& training) {
    std::erase_if(pending_, [&](const PendingFault& pending) {
      const bool recovered = has_recovered(training, pending);
      if (!recovered && pending.give_up.passed()) {
        options_.say(fmt::format("  no recovery within {:.0f} s", seconds(pending.give_up.allowed())));
      }
      return recovered || pending.give_up.passed();
    });
  }

  /// Returns whether training goes on and the victim is back.
  bool has_recovered(const ObservedRun& training, const PendingFault& pending) {
    InjectedFault& injected = faults_[pending.number];
    if (injector_->busy() && !options_.overlap) return false;
    const bool process = injected.fault.role != FaultRole::kDisk;
    const auto* now = process ? find_process(injected.fault.role, injected.fault.slot) : nullptr;
    const bool killed = injected.fault.kind == FaultKind::kKill;
    if (process && (now == nullptr || (killed && now->pid == injected.pid))) return false;
    if (process && now->pid != injected.pid && !injected.replaced_at) injected.replaced_at = trace_clock();
    const auto& all = training.events();
    const Recovery recovery = find_recovery(injected, Events(all).subspan(pending.first_event), trace_clock());
    if (!recovery.seconds) return false;
    if (injected.fault.role == FaultRole::kWorker) return recovery.back_seconds.has_value();
    if (injected.replaced_at && all.back().at <= *injected.replaced_at) return false;
    return injected.fault.role != FaultRole::kServer || holds_its_share(training, injected.fault.slot);
  }

  /// Returns whether the server is back in the job and all copies of parameters exist: another one may be hit.
  bool holds_its_share(const ObservedRun& training, std::uint32_t server) {
    if (!next_question_.passed()) return false;
    next_question_ = Deadline::in(kLookAtProcesses);
    try {
      if (!job_) job_.emplace(training.folder());
      const cluster::JobStatus status = job_->status();
      return status.copies_due == 0 && std::ranges::count(status.servers, server, &cluster::MemberStatus::slot) > 0;
    } catch (const Error&) {  // the master may be gone too
      job_.reset();
      return false;
    }
  }

  bool may_inject(const Fault& fault) const {
    if (!options_.overlap) return pending_.empty();
    if (fault.role != FaultRole::kServer) return true;
    return std::ranges::none_of(pending_, [&](const PendingFault& pending) {
      return faults_[pending.number].fault.role == FaultRole::kServer;
    });
  }

  void inject_if_due(const ObservedRun& training) {
    const bool by_time = options_.plan.clock == FaultClock::kMilliseconds;
    const std::chrono::nanoseconds trained_for(trace_clock() - training.events().front().at);
    const Fault* due = plan_.due(by_time ? static_cast<std::uint64_t>(trained_for / 1ms) : training.step());
    if (due == nullptr || !may_inject(*due)) return;
    const Fault fault = *due;
    processes_ = training.processes();
    const auto* victim = find_process(fault.role, fault.slot);
    if (victim == nullptr && fault.role != FaultRole::kDisk) {  // wait for it; if it does not come, skip the fault
      if (!victim_by_) victim_by_ = Deadline::in(options_.patience);
      if (victim_by_->passed()) plan_.skipped();
      if (victim_by_->passed()) victim_by_.reset();
      return;
    }
    victim_by_.reset();
    InjectedFault injected{
        .fault = fault, .at = trace_clock(), .step = training.step(), .pid = victim == nullptr ? 0 : victim->pid};
    injected.note = injector_->inject(fault.kind, static_cast<pid_t>(injected.pid));
    plan_.injected();
    options_.say(fmt::format(
        "  step {}: {} {}{}", injected.step, to_string(fault.kind), to_string(fault.role),
        fault.role == FaultRole::kWorker || fault.role == FaultRole::kServer ? fmt::format(" {}", fault.slot) : ""));
    const std::size_t seen = training.events().size();
    pending_.push_back({.number = faults_.size(),
                        .first_event = seen - std::min(seen, kRecent),
                        .give_up = Deadline::in(options_.patience + options_.stop_for)});
    faults_.push_back(std::move(injected));
  }

  const ChaosOptions& options_;
  WorkPlan work_;
  launch::SignalWatcher signals_;
  FaultPlan plan_;
  std::optional<FaultInjector> injector_;  // before the processes: it may change which disk they see
  launch::Supervisor supervisor_;
  std::vector<JobProcess> processes_;  // of the disturbed run, at the last check
  Deadline next_look_ = Deadline::in(0s);
  std::vector<InjectedFault> faults_;
  std::vector<PendingFault> pending_;
  std::optional<Deadline> victim_by_;
  std::optional<Deadline> asked_;  // deadline of a requested stop
  UsageLog usage_;
  std::optional<launch::RunningJob> job_;  // the disturbed one
  Deadline next_question_ = Deadline::in(0s);
};

}  // namespace

ChaosReport run_chaos(const ChaosOptions& options) { return ChaosRun(options).run(); }

}  // namespace trireme::chaos
