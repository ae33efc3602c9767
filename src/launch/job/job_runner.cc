#include "launch/job/job_runner.h"

#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "cluster/protocol.h"
#include "dash/event_hooks.h"
#include "launch/companion.h"
#include "launch/job/chief_output.h"
#include "launch/job/job_files.h"
#include "launch/job/job_progress.h"
#include "launch/job/log_tail.h"
#include "launch/job/master_process.h"
#include "launch/job/member_environment.h"
#include "launch/job/page_link.h"
#include "launch/private_file.h"
#include "launch/process_set.h"
#include "launch/signal_watcher.h"
#include "launch/supervisor.h"
#include "observe/progress.h"
#include "observe/timeline.h"

namespace trireme::launch {
namespace {

using cluster::JobPhase;
using cluster::JobStatus;

observe::ProgressOptions progress_options() {
  return {.colour = observe::colour_wanted(std::getenv("NO_COLOR"), std::getenv("TERM"))};
}

class JobRunner {
 public:
  JobRunner(const JobSpec& spec, const observe::RunFolder& folder)
      : spec_(spec),
        folder_(folder),
        secret_(spec.part ? spec.part->secret : random_hex(32)),
        workers_("worker", spec.workers, {.limit = spec.restarts},
                 [this](std::uint32_t slot) { return start_member("worker", slot, spec_.worker_argv); }),
        servers_("server", spec.servers, {.limit = spec.restarts},
                 [this](std::uint32_t slot) {
                   return start_member("server", slot, {companion_program("trireme"), "serve"});
                 }),
        store_(find_store(spec, folder)),
        master_({.announce = folder.path() / "master.json",
                 .secret = secret_,
                 .replaceable = !store_.empty(),
                 .start = [this] { return start("master", master_words(spec_, folder_, store_), {}); }}),
        line_(progress_options()),
        hooks_({.target = leads() ? spec.on_event : "", .run = folder.path().string()}),
        chief_(folder) {}

  JobOutcome run() {
    begin();
    while (supervisor_.alive() > 0 || await_master()) {
      // The others are started when the first master listens: soon.
      const auto pause = members_started_ ? 100ms : 5ms;
      for (const Exit& exit : supervisor_.wait(Deadline::in(pause), signals_.descriptor())) on_exit(exit);
      on_signal(signals_.take());
      tend_master();
      watch_master();
      if (!stopped_) notice_end(status_);  // also when the master has ended by itself
      keep_up();
    }
    if (!spec_.quiet) line_.finish();
    echo();
    if (leads()) merge_job_timeline(folder_);
    conclude();
    if (leads()) end_job_files(folder_, outcome_, stopping_);
    hooks_.tell_end(outcome_.status, outcome_.failure, status_.now.step);
    return outcome_;
  }

 private:
  /// Whether the run folder is ours to write.
  bool leads() const { return !spec_.part || spec_.part->leads; }
  bool has_master() const { return !spec_.part || spec_.part->has_master; }

  void begin() {
    if (leads()) begin_job_files(folder_, secret_);
    for (std::uint32_t slot = 0; slot < spec_.workers; ++slot) {
      std::error_code missing;
      const auto bytes = std::filesystem::file_size(folder_.log(fmt::format("worker {}", slot)), missing);
      logs_before_.push_back(missing ? 0 : bytes);
    }
    if (has_master()) return master_.start(Deadline::Clock::now());
    master_.adopt(spec_.part->master);
    members_started_ = true;
    start_members(Deadline::Clock::now());
  }

  void start_members(ProcessSet::Time now) {
    if (!spec_.part) {
      servers_.start_all(now);
      workers_.start_all(now);
      return;
    }
    servers_.start_these(spec_.part->servers, now);
    workers_.start_these(spec_.part->workers, now);
  }

  /// How it ended. Success is a result, or, of a program that reports none, an end by itself.
  void conclude() {
    if (failed_processes_ > 0 && failure_.empty()) failure_ = "a process failed";
    if (failure_.empty() && status_.view == 0 && leads()) failure_ = "the job ended before it had begun";
    outcome_.status = worst_status(exits_);
    outcome_.failure = stopping_ && outcome_.status == 0 ? "" : failure_;
    outcome_.may_repeat = failed_processes_ > 0 && !stopping_ && status_.view > 0 && status_.plan.steps == 0 &&
                          !status_.plan.elastic && outcome_.result.is_null();
    if (outcome_.status != 0) return;
    const bool ended = status_.state == JobPhase::kFinished && !status_.plan.elastic;
    if (!outcome_.failure.empty()) outcome_.status = 1;
    if (!leads()) return;
    if (stopping_ && outcome_.result.is_null() && !ended) outcome_.status = 128 + signals_.signal();
  }

  /// If all that the job still has is a master to be started again, waits until that is due and returns true.
  bool await_master() const {
    if (stopped_ || !master_.restart_at()) return false;
    std::this_thread::sleep_until(*master_.restart_at());
    return true;
  }

  /// Starts the members once the first master listens, and a successor when it is due.
  void tend_master() {
    if (stopped_) return;
    const auto now = Deadline::Clock::now();
    master_.look(now);
    if (!master_.listening() || std::exchange(members_started_, true)) return;
    if (spec_.part && spec_.part->on_listening) spec_.part->on_listening(master_.address());
    start_members(now);
    if (const std::string link = page_link(folder_); !link.empty()) say("page: " + link);
  }

  pid_t start_member(const std::string& role, std::uint32_t slot, const std::vector<std::string>& argv) {
    std::vector<std::string> words = spec_.carrier ? spec_.carrier(role, slot) : std::vector<std::string>();
    words.insert(words.end(), argv.begin(), argv.end());
    return start(
        fmt::format("{} {}", role, slot), std::move(words),
        member_environment(spec_, folder_, {.role = role, .rank = slot, .master = master_.address(), .store = store_}));
  }

  pid_t start(const std::string& name, std::vector<std::string> argv, std::map<std::string, std::string> env) {
    env["TRIREME_SECRET"] = secret_;
    if (!spec_.log_level.empty()) env[kLogLevelVariable] = spec_.log_level;
    // Schedulers signal every process of a job, and the workers would leave before they are asked to stop together.
    return supervisor_.start({.name = name,
                              .argv = std::move(argv),
                              .env = std::move(env),
                              .log = folder_.log(name),
                              .shielded = spec_.part.has_value()});
  }

  /// Returns null for the master.
  ProcessSet* processes_of(const std::string& process) {
    return workers_.has(process) ? &workers_ : servers_.has(process) ? &servers_ : nullptr;
  }

  std::string program_of(const ProcessSet& processes) const {
    if (&processes != &workers_ || spec_.worker_argv.empty()) return "trireme";
    return std::filesystem::path(spec_.worker_argv.front()).filename().string();
  }

  std::string tail(const std::string& name) const { return tail_of_log(folder_.log(name), 10); }

  void on_exit(const Exit& exit) {
    ProcessSet* processes = processes_of(exit.name);
    if (processes != nullptr && processes->note_end(ProcessSet::slot_of(exit.name), Deadline::Clock::now()))
      return;  // it was asked to end

    const bool unasked = exit.name == "master" && going_on();  // whatever its status
    const bool bad = (exit.status != 0 || exit.signal != 0 || unasked) && !exit.by_us;
    const bool too_late = bad && processes != nullptr && came_too_late(*processes, exit);
    const bool failed = bad && !too_late;
    if (!bad && processes == &workers_ && never_joined()) {
      exits_.push_back(exit);
      failure_ = fmt::format(
          "{} {} and never joined the job, as if each process were to train a model of its own: a program joins with "
          "trireme::Job::join() or trireme::dist::init()",
          exit.name, exit.how);
      return stop(2s);
    }
    std::string why_final;
    if (failed && processes != nullptr && survive(*processes, exit, why_final)) return;
    if (exit.name == "master") master_.note_end();
    if (failed && exit.name == "master" && replace_master(exit, why_final)) return;
    if (!too_late) exits_.push_back(exit);
    if (failed && ++failed_processes_ == 1) {
      watch_master(/*at_once=*/true);  // it may know more than the exit status says
      // What the process itself told the master says most; that its connection ended says least.
      if (const std::string forgetful = ended_without_leaving(); !forgetful.empty()) {
        failure_ = fmt::format(
            "{} ended before the job did, and the others took it for dead: a program ends with job->leave() or "
            "world->finish(); its log ends with:\n{}",
            forgetful, tail(forgetful));
      } else if (failure_.find(" failed: ") == std::string::npos && failure_.find(" hangs: ") == std::string::npos) {
        const Exit culprit = find_culprit(exit);
        failure_ = fmt::format("{} {}{}; its log ends with:\n{}", culprit.name, culprit.how,
                               culprit.name == exit.name ? why_final : "", tail(culprit.name));
      }
      stop(2s);
    } else if (workers_.gone() && !ending_) {
      ending_ = true;
      watch_master(/*at_once=*/true);
      if (!spec_.part || !has_master()) stop(5s);  // else the master ends when the last member has learned how it ended
    }
  }

  /// Returns the worker that says so in what this launch added to its log, if there is one. An elastic job goes on.
  std::string ended_without_leaving() const {
    for (std::uint32_t slot = 0; slot < logs_before_.size() && !status_.plan.elastic; ++slot) {
      std::string name = fmt::format("worker {}", slot);
      const std::string end = tail_of_log(folder_.log(name), 10, logs_before_[slot]);
      if (end.find(" event=ended_without_leaving") != std::string::npos) return name;
    }
    return "";
  }

  /// Of a worker that ended well by itself: a member would not have before the job has begun.
  bool never_joined() {
    return !stopped_ && !stopping_ && watch_master(/*at_once=*/true) && status_.state == JobPhase::kGathering;
  }

  /// Returns whether the job was done when a process died: it was restarted and wanted to take part, or it was killed
  /// from outside, after the result was there.
  bool came_too_late(const ProcessSet& processes, const Exit& exit) {
    const bool killed = exit.signal == SIGKILL || exit.signal == SIGTERM;
    const bool late_start = exit.signal == 0 && processes.came_later(ProcessSet::slot_of(exit.name));
    if (!killed && !late_start) return false;
    watch_master(/*at_once=*/true);
    return !outcome_.result.is_null() || (late_start && status_.state == JobPhase::kFinished);
  }

  /// Handles a failed worker or server: if the job can go on, it is restarted. Returns false if the job cannot go on,
  /// with the reason, where that is not obvious, in `why_final`.
  bool survive(ProcessSet& processes, const Exit& exit, std::string& why_final) {
    if (stopped_ || stopping_) return false;
    watch_master(/*at_once=*/true);
    if (status_.plan.steps == 0 && !status_.plan.strategy.empty() && !status_.plan.elastic) {
      why_final = ", and its loop cannot go on without it: with dist::elastic (trireme/elastic.h) it could";
    }
    if (spec_.backend == "mpi") {
      why_final = fmt::format(
          ", and MPI cannot go on without a rank: continue with 'mpirun … trireme resume {}', or use --backend native, "
          "which can go on",
          folder_.path().string());
      return false;
    }
    const bool running = status_.state == JobPhase::kRunning || status_.state == JobPhase::kWaiting;
    // Until the workers have sent their plan, any process that was killed is restarted.
    const bool not_said = status_.state == JobPhase::kGathering || (running && status_.plan.steps == 0);
    if (!(not_said && exit.signal != 0) && !(running && status_.plan.elastic)) return false;
    const RestartDecision decision = processes.restart(ProcessSet::slot_of(exit.name), Deadline::Clock::now());
    const std::string end = fmt::format("{} {}; its log ends with:\n{}", exit.name, exit.how, tail(exit.name));
    const std::string last_words =
        exit.signal == 0 ? last_complaint(folder_.log(exit.name), program_of(processes)) : "";
    say(fmt::format("{} {}{}: {}", exit.name, exit.how, last_words.empty() ? "" : " (" + last_words + ")",
                    decision.reason));
    if (processes.hopeless()) {  // none is left to carry on meanwhile
      failure_ = fmt::format("all {} failed too often ({}; see --restarts); the last was {}",
                             &processes == &workers_ ? "workers" : "servers", decision.reason, end);
      exits_.push_back(exit);
      stop(2s);
    }
    return decision.again || !processes.hopeless();
  }

  /// Returns whether the job is neither over nor about to end.
  bool going_on() const {
    return !stopped_ && !ending_ && status_.state != JobPhase::kFailed && status_.state != JobPhase::kFinished;
  }

  /// Handles the end of a master: its successor continues from what was saved, and the others find it. Returns false if
  /// there is none, with the reason in `why_final`.
  bool replace_master(const Exit& exit, std::string& why_final) {
    if (stopped_ || status_.state == JobPhase::kFailed) return false;
    const RestartDecision decision = master_.restart(exit, Deadline::Clock::now());
    say(fmt::format("the master {}: {}", exit.how, decision.reason));
    if (!decision.again) why_final = ": " + decision.reason;
    return decision.again;
  }

  /// Starts processes whose restart is due, and adjusts their numbers to what was requested.
  void keep_up() {
    if (spec_.part && status_.view > 0 && !std::exchange(begun_, true) && spec_.part->on_begun) spec_.part->on_begun();
    if (stopped_ || stopping_ || status_.state == JobPhase::kFinished || status_.state == JobPhase::kFailed) return;
    const auto now = Deadline::Clock::now();
    for (ProcessSet* processes : {&workers_, &servers_}) {
      try {
        processes->start_due(now);
      } catch (const Error& problem) {
        say(fmt::format("{}: trying again later", problem.what()));
      }
      if (!spec_.part) adjust(*processes, now);  // else how many there are is the other launcher's business
    }
  }

  /// Starts and ends processes until there are as many as the master was told. If they cannot be started there are as
  /// many as before, and the master is told that.
  void adjust(ProcessSet& processes, ProcessSet::Time now) {
    const bool are_workers = &processes == &workers_;
    std::uint32_t& wanted = are_workers ? status_.wanted_workers : status_.wanted_servers;
    if (wanted == 0 || wanted == processes.wanted() || !due_again_.passed()) return;
    say(fmt::format("{} {} are wanted, there were {}", wanted, are_workers ? "workers" : "servers",
                    processes.wanted()));
    try {
      processes.resize(wanted, /*to_be_told=*/are_workers, now);  // the master tells servers when they may end
    } catch (const Error& problem) {
      const std::uint32_t old = processes.wanted();
      say(fmt::format("{}; there will be {} as before", problem.what(), old));
      tell_master({.workers = are_workers ? old : 0, .servers = are_workers ? 0 : old});
      wanted = old;
    }
  }

  /// What cannot be told now is told after another attempt.
  void tell_master(const cluster::ScaleRequest& request) {
    try {
      master_.scale(request);
    } catch (const Error& problem) {
      due_again_ = Deadline::in(5s);
      say(fmt::format("the master was not told: {}", problem.what()));
    }
  }

  /// Returns the process whose death ended the others, which may take longer to end than they do. Waits briefly for the
  /// one that the master blames ("worker 1 (pid 71) died: …"); else it is `first`.
  Exit find_culprit(const Exit& first) {
    const std::string blamed = failure_.substr(0, failure_.find(" (pid"));
    if (blamed == first.name || blamed == failure_) return first;
    for (const Deadline deadline = Deadline::in(2s); !deadline.passed();) {
      std::optional<Exit> culprit;
      for (const Exit& exit : supervisor_.wait(Deadline::in(20ms))) {
        if (ProcessSet* processes = processes_of(exit.name))
          processes->note_end(ProcessSet::slot_of(exit.name), Deadline::Clock::now());
        exits_.push_back(exit);
        if (exit.name == blamed) culprit = exit;
      }
      if (culprit) return *culprit;
      if (supervisor_.alive() == 0) break;
    }
    return first;
  }

  void stop(std::chrono::milliseconds grace) {
    master_.disconnect();
    supervisor_.stop(grace);
    stopped_ = true;
  }

  void on_signal(StopRequest request) {
    if (request == StopRequest::kNone) return;
    if (!master_.connected() && request == StopRequest::kStop) watch_master(/*at_once=*/true);  // it may be a new one
    if (request == StopRequest::kStopNow || stopping_ || !master_.connected()) {
      say(request == StopRequest::kStopNow ? "stopping at once" : "stopping");
      if (request == StopRequest::kStopNow) {
        master_.disconnect();  // it ends too: there is none to ask
        supervisor_.kill_now();
        stopped_ = true;
      } else {
        stop(5s);
      }
    } else {
      const bool may_not_ask = !status_.plan.elastic && status_.state == JobPhase::kRunning;
      say(fmt::format("{}; press Ctrl-C again to stop at once",
                      may_not_ask ? "stopping as soon as the program's own loop asks (world->should_stop())"
                                  : "stopping after this step"));
      ask_to_stop();
    }
    stopping_ = true;
  }

  void ask_to_stop() {
    try {
      master_.ask_to_stop("asked to stop");
    } catch (const Error& problem) {
      say(fmt::format("the master cannot be asked ({}): ending the processes", problem.what()));
      stop(5s);
    }
  }

  /// Stops workers that are done but do not exit, and processes that would look for a master when there is none left.
  void notice_end(const JobStatus& status) {
    if (status.state != JobPhase::kFinished) return;
    if (!master_.listening()) {
      for (const ProcessSet* processes : {&workers_, &servers_}) {
        for (const pid_t late : processes->latecomers()) supervisor_.kill(late);
      }
    }
    if (!finished_by_) finished_by_.emplace(Deadline::in(30s));
    if (finished_by_->passed()) stop(5s);
  }

  /// Prints the plan once. `trireme train` has printed it already; of a user's own program only the master knows it.
  void tell_plan(const JobStatus& status) {
    if (!spec_.echo_chief || status.plan.steps == 0 || std::exchange(plan_told_, true)) return;
    say(fmt::format("{} steps of {} samples, strategy {}", status.plan.steps, status.plan.batch, status.plan.strategy));
  }

  /// Prints what the job waits for, and who is slow, when that has changed: the progress line may be too short for it.
  void tell_trouble(const JobStatus& status) {
    const std::string reason = status.state == JobPhase::kWaiting ? status.reason : "";
    if (reason != std::exchange(told_wait_, reason) && !reason.empty()) say(reason);
    std::set<std::uint32_t> slow;
    for (const cluster::Straggler& straggler : status.stragglers) slow.insert(straggler.slot);
    if (slow != std::exchange(told_slow_, slow) && !slow.empty()) say("slow: " + cluster::describe(status.stragglers));
  }

  /// Returns whether `status_` is new.
  bool watch_master(bool at_once = false) {
    if (stopped_ || !master_.listening() || (!at_once && !next_look_.passed())) return false;
    next_look_ = Deadline::in(100ms);
    echo();
    try {
      const JobStatus status = master_.status();
      if (!status.result.is_null()) outcome_.result = status.result;
      if (!status.result.is_null()) outcome_.result["clock_spread_max"] = status.spread_max;
      if (status.state == JobPhase::kFailed) failure_ = status.reason;
      note_progress(status);
      status_ = status;
      hooks_.watch(status, Deadline::Clock::now());
      notice_end(status);
      tell_plan(status);
      tell_trouble(status);
      // A program that has not sent its plan has nothing to show.
      const bool silent = status.state == JobPhase::kRunning && status.plan.steps == 0 && status.now.step == 0;
      if (!spec_.quiet && !silent) line_.update(describe(status));
      return true;
    } catch (const Error& problem) {
      log_debug("master_silent", "no answer from the master", {{"reason", problem.what()}});
      return false;
    }
  }

  /// Restarts count against their limits only until the job has got further than ever before: steps that are repeated
  /// from a checkpoint on achieve nothing.
  void note_progress(const JobStatus& status) {
    const bool advanced = status.now.step > furthest_;
    furthest_ = std::max(furthest_, status.now.step);
    if (advanced || status.view > status_.view) master_.note_progress();
    workers_.note_status(status.view, slots_of(status.workers), advanced);
    servers_.note_status(status.view, slots_of(status.servers), advanced);
  }

  void echo() {
    if (!spec_.echo_chief || spec_.quiet) return;
    if (const std::string lines = chief_.next_lines(); !lines.empty()) line_.print_above(lines);
    if (!status_.workers.empty()) chief_.follow(status_.view, status_.workers.front().slot);
  }

  void say(const std::string& text) {
    if (!spec_.quiet) line_.print_above(text);
  }

  const JobSpec& spec_;
  const observe::RunFolder& folder_;
  const std::string secret_;
  SignalWatcher signals_;
  Supervisor supervisor_;
  ProcessSet workers_;
  ProcessSet servers_;
  const std::string store_;  // see find_store
  MasterProcess master_;
  observe::ProgressLine line_;
  dash::EventHooks hooks_;
  ChiefOutput chief_;
  Deadline next_look_ = Deadline::in(0s);
  Deadline due_again_ = Deadline::in(0s);  // an attempt to change the number of processes
  std::optional<Deadline> finished_by_;
  JobStatus status_;   // the master's last reply
  Step furthest_ = 0;  // how far the job has ever got
  bool members_started_ = false;
  bool begun_ = false;
  std::vector<std::uintmax_t> logs_before_;  // bytes of each worker's log that earlier launches wrote
  std::vector<Exit> exits_;                  // those that count for the status
  std::uint32_t failed_processes_ = 0;
  bool stopping_ = false;  // a person asked for it
  bool stopped_ = false;   // the processes were told to
  bool ending_ = false;
  bool plan_told_ = false;
  std::string told_wait_;              // what the job was reported to wait for
  std::set<std::uint32_t> told_slow_;  // workers reported as slow
  std::string failure_;
  JobOutcome outcome_;
};

}  // namespace

JobOutcome run_job(const JobSpec& spec, const observe::RunFolder& folder) { return JobRunner(spec, folder).run(); }

}  // namespace trireme::launch
