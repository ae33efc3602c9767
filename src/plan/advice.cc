#include "plan/advice.h"

#include <algorithm>

#include "base/error.h"

namespace trireme::plan {
namespace {

constexpr std::uint32_t kMostTimesWorkers = 64;

std::string take_apart(const RankMemory& memory) {
  return fmt::format("weights {}, gradients {}, optimizer {}, activations {}, working memory {}",
                     gigabytes(memory.state.weights), gigabytes(memory.state.gradients),
                     gigabytes(memory.state.optimizer), gigabytes(memory.activations), gigabytes(memory.working));
}

/// Plain data parallelism, which everybody would try first; nullopt if it is impossible or not asked for.
std::optional<Candidate> data_alone(const PlanRequest& request) {
  const Arrangement plain{.mesh = {.data = request.hardware.workers}};
  if (request.mesh || request.zero || request.schedule || request.micro_batches) return std::nullopt;
  if (why_impossible(request.workload, request.hardware, plain)) return std::nullopt;
  Candidate candidate{plain, predict(request.workload, request.hardware, plain), false};
  candidate.fits = candidate.prediction.memory.total() <= request.hardware.memory;
  return candidate;
}

void explain_data_alone(const PlanRequest& request, const Candidate& best, std::vector<std::string>& reasons) {
  const auto plain = data_alone(request);
  if (!plain || plain->arrangement == best.arrangement) return;
  const double memory = plain->prediction.memory.total();
  if (!plain->fits) {
    reasons.push_back(fmt::format("data parallelism alone, one micro-batch, needs {} per worker: {} too much",
                                  gigabytes(memory), gigabytes(memory - request.hardware.memory)));
  } else {
    reasons.push_back(
        fmt::format("data parallelism alone, one micro-batch, fits ({}), but a step takes {:.2f} times as long",
                    gigabytes(memory), plain->prediction.step_seconds / best.prediction.step_seconds));
  }
}

void explain_time(const PlanRequest& request, const Candidate& best, std::vector<std::string>& reasons) {
  const Prediction& prediction = best.prediction;
  if (best.arrangement.mesh.pipe > 1) {
    Arrangement other = best.arrangement;
    other.schedule = ScheduleKind::k1F1B;
    other.chunks = 1;
    std::string text = fmt::format("the pipeline is idle for {:.1f} % of its time", 100 * prediction.bubble);
    if (other != best.arrangement) {
      text += fmt::format("; with 1f1b it would be {:.1f} %",
                          100 * predict(request.workload, request.hardware, other).bubble);
    }
    reasons.push_back(text);
  }
  if (prediction.data_seconds > 0) {
    reasons.push_back(
        fmt::format("gradients and weights travel for {} per step, of which {} is not hidden by computing",
                    duration_text(prediction.data_seconds), duration_text(prediction.exposed_seconds)));
  }
  if (prediction.tensor_seconds > 0) {
    reasons.push_back(fmt::format("the dimension tensor sums activations for {} per step, which nothing hides",
                                  duration_text(prediction.tensor_seconds)));
  }
  reasons.push_back(prediction.placement);
}

/// Returns the fastest that fits.
std::optional<Candidate> fastest(const PlanRequest& request) {
  std::optional<Candidate> best;
  for (Candidate& each : predict_all(request)) {
    if (each.fits && (!best || each.prediction.step_seconds < best->prediction.step_seconds)) best = std::move(each);
  }
  return best;
}

void try_change(const PlanRequest& changed, const std::string& change, std::vector<Knob>& knobs) {
  if (const auto found = fastest(changed)) {
    knobs.push_back(
        {change, fmt::format("fits with {} of {}, {} per step: {}", gigabytes(found->prediction.memory.total()),
                             gigabytes(changed.hardware.memory), duration_text(found->prediction.step_seconds),
                             to_text(found->arrangement))});
  }
}

}  // namespace

std::string gigabytes(double bytes) {
  return bytes < 0.995e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string duration_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::vector<std::string> explain_choice(const PlanRequest& request, const Plan& plan) {
  const Candidate& best = plan.best();
  const double memory = best.prediction.memory.total();
  std::vector<std::string> reasons;
  if (!plan.fits()) {
    reasons.push_back(fmt::format("none of {} arrangements fits: the smallest needs {} of {} per worker, {} too much",
                                  plan.considered, gigabytes(memory), gigabytes(request.hardware.memory),
                                  gigabytes(memory - request.hardware.memory)));
    reasons.push_back("it holds " + take_apart(best.prediction.memory));
    return reasons;
  }
  reasons.push_back(fmt::format("it fits: {} of {} per worker; so do {} of {} arrangements", gigabytes(memory),
                                gigabytes(request.hardware.memory), plan.fitting, plan.considered));
  const auto quickest =
      std::ranges::min_element(plan.candidates, {}, [](const Candidate& c) { return c.prediction.step_seconds; });
  if (quickest != plan.candidates.begin()) {
    reasons.push_back(fmt::format("the fastest, {}, takes {:.1f} % less time, which is not worth its complexity",
                                  to_text(quickest->arrangement),
                                  100 * (1 - quickest->prediction.step_seconds / best.prediction.step_seconds)));
  }
  explain_data_alone(request, best, reasons);
  explain_time(request, best, reasons);
  return reasons;
}

std::vector<Knob> find_knobs(const PlanRequest& request) {
  std::vector<Knob> knobs;
  const auto attempt = [&](const std::string& change, const auto& apply) {
    PlanRequest changed = request;
    apply(changed);
    try_change(changed, change, knobs);
  };
  if (request.recompute == false) attempt("--recompute on", [](PlanRequest& r) { r.recompute = true; });
  if (request.zero && *request.zero < 3) attempt("without --zero", [](PlanRequest& r) { r.zero.reset(); });
  if (request.micro_batches) attempt("without --micro-batches", [](PlanRequest& r) { r.micro_batches.reset(); });
  if (request.schedule) {
    attempt("without --schedule", [](PlanRequest& r) {
      r.schedule.reset();
      r.chunks.reset();
    });
  }
  if (!request.offload) {
    attempt("--offload", [](PlanRequest& r) {
      r.offload = true;
      r.mesh.reset();
      r.zero.reset();
    });
  }
  if (request.mesh) attempt("without --mesh", [](PlanRequest& r) { r.mesh.reset(); });
  if (request.workload.precision == Precision::kFp32) {
    attempt("--precision bf16", [](PlanRequest& r) { r.workload.precision = Precision::kBf16; });
  }
  if (!request.workload.any_order) attempt("--reduction fast", [](PlanRequest& r) { r.workload.any_order = true; });
  if (!request.mesh) {
    const std::size_t before = knobs.size();
    for (std::uint32_t times = 2; times <= kMostTimesWorkers && knobs.size() == before; times *= 2) {
      attempt(fmt::format("--workers {}", request.hardware.workers * times), [&](PlanRequest& r) {
        r.hardware.workers *= times;
        r.hardware.hosts *= times;
      });
    }
  }
  double least = 0;
  for (const Candidate& each : predict_all(request)) {
    const double memory = each.prediction.memory.total();
    if (least == 0 || memory < least) least = memory;
  }
  const std::string enough =
      least < 1e9 ? fmt::format("{:.0f}mb", least / 1e6 + 0.5) : fmt::format("{:.2f}gb", least / 1e9 + 0.005);
  knobs.push_back({"--memory " + enough, "fits the smallest arrangement"});
  return knobs;
}

}  // namespace trireme::plan
