#include "cli/bench/pipeline.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "collective/communicator.h"
#include "observe/bench_report.h"
#include "pipeline/run_schedule.h"
#include "plan/schedule/evaluate.h"

namespace trireme::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Sleeps for about this long: the kernel is asked to be exact to the microsecond.
void sleep_exactly(double seconds) {
  thread_local const bool exact = ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0;
  (void)exact;
  std::this_thread::sleep_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds)));
}

/// Stages that sleep, and exchange messages of a fixed size.
class SleepingStages final : public pipeline::StageActions {
 public:
  SleepingStages(double unit, std::size_t bytes) : unit_(unit), bytes_(bytes), out_(bytes) {}

  void forward(std::uint32_t, std::uint32_t) override { sleep(1); }
  void backward(std::uint32_t, std::uint32_t) override { sleep(2); }
  void backward_input(std::uint32_t, std::uint32_t) override { sleep(1); }
  void backward_weight(std::uint32_t, std::uint32_t) override { sleep(1); }
  pipeline::Outgoing outgoing(const pipeline::Message&) override {
    return {.arrays = {{DType::kU8, out_.data(), out_.size()}}};
  }
  std::optional<std::vector<collective::Array>> memory_for(const pipeline::Message& message) override {
    std::vector<std::byte>& memory = in_[message];
    memory.resize(bytes_);
    return std::vector<collective::Array>{{DType::kU8, memory.data(), memory.size()}};
  }
  void learn(const pipeline::Message&, const pipeline::Layout&) override {}

  double slept = 0;  ///< seconds, in all

 private:
  void sleep(double units) {
    const auto began = Clock::now();
    sleep_exactly(units * unit_);
    slept += Seconds(Clock::now() - began).count();
  }

  double unit_;
  std::size_t bytes_;
  std::vector<std::byte> out_;
  std::map<pipeline::Message, std::vector<std::byte>> in_;
};

/// What one pipeline did.
struct StepTimes {
  double seconds = 0;
  double busy = 0;  ///< of all ranks together
  std::vector<std::uint32_t> peaks;
};

/// Ranks as threads, connected once for all schedules of this size.
class Ranks {
 public:
  explicit Ranks(std::uint32_t size) {
    const std::string secret = random_hex(16);
    for (std::uint32_t i = 0; i < size; ++i) {
      endpoints_.push_back(std::make_unique<collective::Endpoint>(collective::EndpointOptions{.secret = secret}));
      addresses_.push_back(endpoints_.back()->address());
    }
    communicators_.resize(size);
    each([&](Rank rank) {
      collective::CommunicatorOptions options;
      options.rank = rank;
      options.members = addresses_;
      communicators_[rank] = std::make_unique<collective::Communicator>(*endpoints_[rank], options);
    });
  }

  StepTimes run(const plan::Schedule& schedule, double unit, std::size_t bytes) {
    StepTimes times;
    times.peaks.resize(communicators_.size());
    std::vector<Clock::time_point> began(communicators_.size());
    std::vector<Clock::time_point> ended(communicators_.size());
    std::vector<double> slept(communicators_.size());
    each([&](Rank rank) {
      collective::Communicator& ranks = *communicators_[rank];
      SleepingStages stages(unit, bytes);
      pipeline::Links links(ranks, schedule);
      ranks.run(collective::barrier());
      began[rank] = Clock::now();
      times.peaks[rank] = run_schedule(schedule, rank, links, stages).peak_of_rank;
      ended[rank] = Clock::now();
      slept[rank] = stages.slept;
      ranks.run(collective::barrier());
    });
    times.seconds = Seconds(std::ranges::max(ended) - std::ranges::min(began)).count();
    for (const double one : slept) times.busy += one;
    return times;
  }

  /// The time of a message from one rank to the next and back, halved; the median counts.
  double message_seconds(std::size_t bytes) {
    std::vector<double> seconds;
    each([&](Rank rank) {
      if (rank > 1) return;
      std::vector<std::byte> memory(bytes);
      const collective::Array array(DType::kU8, memory.data(), memory.size());
      for (int round = 0; round < 41; ++round) {
        const auto began = Clock::now();
        if (rank == 0) communicators_[0]->run(collective::send(array, 1));
        communicators_[rank]->run(collective::recv(array, 1 - rank));
        if (rank == 1) communicators_[1]->run(collective::send(array, 0));
        if (rank == 0 && round > 0) seconds.push_back(Seconds(Clock::now() - began).count() / 2);
      }
    });
    return observe::median(seconds);
  }

 private:
  template <typename Body>
  void each(const Body& body) {
    std::vector<std::exception_ptr> problems(endpoints_.size());
    {
      std::vector<std::jthread> threads;
      for (Rank rank = 0; rank < endpoints_.size(); ++rank) {
        threads.emplace_back([&, rank] {
          try {
            body(rank);
          } catch (...) {
            problems[rank] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& problem : problems) {
      if (problem) std::rethrow_exception(problem);
    }
  }

  std::vector<std::unique_ptr<collective::Endpoint>> endpoints_;
  std::vector<net::Address> addresses_;
  std::vector<std::unique_ptr<collective::Communicator>> communicators_;
};

std::string as_share(const observe::Json& share) {
  return share.is_null() ? "-" : fmt::format("{:.1f} %", 100 * share.get<double>());
}

std::string as_milliseconds(const observe::Json& seconds) { return fmt::format("{:.1f}", 1e3 * seconds.get<double>()); }

class PipelineBench {
 public:
  explicit PipelineBench(const BenchPipelineOptions& options) : options_(options) {}

  observe::BenchReport run() {
    report_.tables.push_back({.key = "pipelines",
                              .title =
                                  "a step of pipelines whose stages sleep: idle share by the formula, by simulation "
                                  "with the measured time of a message, and measured",
                              .columns = {{"schedule", "schedule"},
                                          {"ranks", "ranks"},
                                          {"micro_batches", "micro-batches"},
                                          {"bubble_formula", "formula", as_share},
                                          {"bubble_simulated", "simulated", as_share},
                                          {"bubble_measured", "measured", as_share},
                                          {"simulated_s", "simulated ms", as_milliseconds},
                                          {"measured_s", "measured ms", as_milliseconds},
                                          {"ratio", "ratio", as_fixed_3},
                                          {"activations_planned", "activations planned"},
                                          {"activations_held", "held"}},
                              .rows = {}});
    for (const auto& [ranks, micro_batches] : shapes()) measure(ranks, micro_batches);
    report_.targets.push_back({.what = "time of a step, worst distance from formula and messages",
                               .bound = observe::BenchTarget::Bound::kAtMost,
                               .required = 0.03,
                               .measured = worst_});
    report_.targets.push_back({.what = "idle time of zb-h1, in that of 1f1b (median)",
                               .bound = observe::BenchTarget::Bound::kAtMost,
                               .required = 0.36,
                               .measured = idle_in_1f1b(plan::ScheduleKind::kZbH1)});
    report_.targets.push_back({.what = "idle time of zb-v, in that of 1f1b (median)",
                               .bound = observe::BenchTarget::Bound::kAtMost,
                               .required = 0.2,
                               .measured = idle_in_1f1b(plan::ScheduleKind::kZbV)});
    report_.targets.push_back({.what = "pipelines that hold other than the planned activations",
                               .bound = observe::BenchTarget::Bound::kAtMost,
                               .required = 0,
                               .measured = static_cast<double>(wrong_peaks_)});
    return std::move(report_);
  }

 private:
  static std::string as_fixed_3(const observe::Json& value) { return fmt::format("{:.3f}", value.get<double>()); }

  double idle_in_1f1b(plan::ScheduleKind kind) const {
    std::vector<double> shares;
    for (const auto& [shape, idle] : idle_) {
      const auto usual = idle.find(plan::ScheduleKind::k1F1B);
      const auto own = idle.find(kind);
      if (usual != idle.end() && own != idle.end()) shares.push_back(own->second / usual->second);
    }
    return observe::median(shares);
  }

  std::map<std::uint32_t, std::vector<std::uint32_t>> shapes() const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> shapes;
    for (const std::string& text : options_.shapes) {
      unsigned ranks = 0;
      unsigned micro_batches = 0;
      int read = 0;
      const bool fits = std::sscanf(text.c_str(), "%u:%u%n", &ranks, &micro_batches, &read) == 2 &&
                        static_cast<std::size_t>(read) == text.size() && ranks > 0 && ranks <= 64 && micro_batches > 0;
      if (!fits) fail<InvalidArgument>("--shapes {}: write ranks:micro-batches, at most 64 ranks, such as 4:16", text);
      shapes[ranks].push_back(micro_batches);
    }
    return shapes;
  }

  void measure(std::uint32_t ranks, const std::vector<std::uint32_t>& all_micro_batches) {
    Ranks group(ranks);
    const double message = ranks > 1 ? group.message_seconds(options_.bytes) : 0;
    report_.baseline[fmt::format("message_us_{}_ranks", ranks)] = std::round(message * 1e7) / 10;
    for (const std::uint32_t micro_batches : all_micro_batches) {
      for (const std::string& name : options_.schedules) {
        fmt::print(stderr, "bench pipeline: {} on {} ranks, {} micro-batches\n", name, ranks, micro_batches);
        measure(group, plan::parse_schedule_kind(name), ranks, micro_batches, message);
      }
    }
  }

  void measure(Ranks& group, plan::ScheduleKind kind, std::uint32_t ranks, std::uint32_t micro_batches,
               double message) {
    const std::uint32_t chunks = plan::usual_chunks(kind);
    const plan::ScheduleShape shape{.kind = kind, .ranks = ranks, .micro_batches = micro_batches, .chunks = chunks};
    const plan::Schedule schedule = plan::with_messages(plan::make_schedule(shape));
    const double unit = options_.milliseconds * 1e-3 / chunks;  // a rank has the same work, however it is cut
    StepTimes best;
    plan::Evaluation simulated;
    double ratio = std::numeric_limits<double>::infinity();
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      StepTimes times = group.run(schedule, unit, options_.bytes);
      // Sleeps are a little longer than asked for: what was slept is what the stages take.
      const double slept = times.busy / (3.0 * chunks * ranks * micro_batches);
      const std::vector<plan::StageTimes> each{{.forward = slept, .backward_input = slept, .backward_weight = slept}};
      plan::Evaluation ideal = plan::evaluate(schedule, each, message);
      if (times.seconds / ideal.makespan >= ratio) continue;  // others disturbed it more
      ratio = times.seconds / ideal.makespan;
      best = std::move(times);
      simulated = std::move(ideal);
    }
    const auto formula = plan::bubble_formula(shape);
    bool same_peaks = true;
    std::uint32_t held = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      same_peaks = same_peaks && best.peaks[rank] == simulated.ranks[rank].peak_activations;
      held = std::max(held, best.peaks[rank]);
    }
    worst_ = std::max(worst_, std::abs(ratio - 1));
    wrong_peaks_ += same_peaks ? 0 : 1;
    if (micro_batches >= ranks && ranks > 1) idle_[{ranks, micro_batches}][kind] = best.seconds - best.busy / ranks;
    report_.tables.front().rows.push_back({{"schedule", plan::name_of(kind)},
                                           {"ranks", ranks},
                                           {"micro_batches", micro_batches},
                                           {"bubble_formula", formula ? observe::Json(*formula) : observe::Json()},
                                           {"bubble_simulated", simulated.bubble},
                                           {"bubble_measured", 1 - best.busy / (ranks * best.seconds)},
                                           {"simulated_s", simulated.makespan},
                                           {"measured_s", best.seconds},
                                           {"ratio", ratio},
                                           {"activations_planned", simulated.peak_activations()},
                                           {"activations_held", held}});
  }

  const BenchPipelineOptions& options_;
  observe::BenchReport report_;
  double worst_ = 0;
  std::uint32_t wrong_peaks_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<plan::ScheduleKind, double>> idle_;  // seconds of a rank
};

}  // namespace

int bench_pipeline(const BenchPipelineOptions& options) {
  try {
    const observe::BenchReport report = PipelineBench(options).run();
    fmt::print("{}", options.json ? observe::to_object(report).dump() + "\n" : observe::to_text(report));
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "bench pipeline: {}\n", problem.what());
    return 1;
  }
}

}  // namespace trireme::cli
