#include "plan/planner.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/ranges.h>

#include "base/error.h"
#include "plan/advice.h"

namespace trireme::plan {
namespace {

constexpr double kAsGood = 1.02;  // a step this much longer is no reason for a less simple arrangement
constexpr std::uint32_t kMostTriedChunks = 4;

std::vector<std::uint32_t> divisors(std::uint64_t number) {
  std::vector<std::uint32_t> all;
  for (std::uint64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    all.push_back(static_cast<std::uint32_t>(i));
    if (i != number / i) all.push_back(static_cast<std::uint32_t>(number / i));
  }
  std::ranges::sort(all);
  return all;
}

std::vector<Mesh> meshes(const PlanRequest& request) {
  if (request.mesh) return {*request.mesh};
  std::vector<Mesh> all;
  const ModelCost& model = request.workload.model;
  for (const std::uint32_t tensor : divisors(request.hardware.workers)) {
    if (request.tensor && tensor != *request.tensor) continue;
    if (tensor > 1 && (model.heads == 0 || model.heads % tensor != 0)) continue;
    for (const std::uint32_t pipe : divisors(request.hardware.workers / tensor)) {
      if (pipe > model.layers.size()) continue;
      all.push_back({request.hardware.workers / tensor / pipe, pipe, tensor});
    }
  }
  return all;
}

/// Which schedules, with how many chunks, are worth a try on so many ranks.
std::vector<std::pair<ScheduleKind, std::uint32_t>> schedules(const PlanRequest& request, std::uint32_t pipe) {
  std::vector<std::pair<ScheduleKind, std::uint32_t>> all;
  if (pipe == 1) return {{ScheduleKind::k1F1B, 1}};  // without a pipeline they are all the same
  for (const ScheduleKind kind : kScheduleKinds) {
    if (request.schedule ? kind != *request.schedule : kind == ScheduleKind::kGpipe) continue;  // 1f1b holds less
    std::uint32_t chunks = request.chunks.value_or(usual_chunks(kind));
    all.emplace_back(kind, chunks);
    if (kind != ScheduleKind::kInterleaved || request.chunks) continue;
    for (chunks *= 2; chunks <= kMostTriedChunks; chunks *= 2) all.emplace_back(kind, chunks);
  }
  return all;
}

/// Of the numbers that divide the samples of a data rank: 1, and from half the pipeline's ranks on up to all samples,
/// each about twice the one before.
std::vector<std::uint32_t> micro_batches(const PlanRequest& request, const Mesh& mesh) {
  if (request.micro_batches) return {*request.micro_batches};
  if (request.workload.batch % mesh.data != 0) return {};
  if (request.lanes) {
    const std::uint64_t each = *request.lanes / mesh.data;
    const bool divides = *request.lanes % mesh.data == 0 && each <= kMostMicroBatches;
    return divides ? std::vector{static_cast<std::uint32_t>(each)} : std::vector<std::uint32_t>();
  }
  const std::uint64_t samples = request.workload.batch / mesh.data;
  std::vector<std::uint32_t> all;
  for (const std::uint32_t count : divisors(samples)) {
    if (count > kMostMicroBatches) break;
    if (count > 1 && 2 * count < mesh.pipe) continue;
    if (all.empty() || count >= 2 * all.back() || count == samples) all.push_back(count);
  }
  return all;
}

/// How much there is to understand, most important first.
auto simplicity(const Arrangement& arrangement) {
  const Mesh& mesh = arrangement.mesh;
  const int dimensions = (mesh.pipe > 1 ? 1 : 0) + (mesh.tensor > 1 ? 1 : 0);
  const int schedule = arrangement.schedule == ScheduleKind::k1F1B ? 0 : 1 + static_cast<int>(arrangement.schedule);
  return std::tuple(dimensions, arrangement.recompute, arrangement.zero, mesh.pipe == 1 ? 0 : schedule,
                    arrangement.micro_batches, mesh.pipe, mesh.tensor);
}

/// Says why, if what the request fixes leaves nothing: for the first mesh, with what is fixed and the simplest else.
[[noreturn]] void refuse(const PlanRequest& request) {
  Arrangement wanted{.mesh = request.mesh.value_or(Mesh{.data = request.hardware.workers}),
                     .zero = request.zero.value_or(0),
                     .schedule = request.schedule.value_or(ScheduleKind::k1F1B),
                     .chunks = 1,
                     .micro_batches = request.micro_batches.value_or(1),
                     .offload = request.offload,
                     .shards = request.shards};
  wanted.chunks = request.chunks.value_or(usual_chunks(wanted.schedule));
  const auto reason = why_impossible(request.workload, request.hardware, wanted);
  if (reason) throw InvalidArgument(*reason);
  fail<InvalidArgument>("no mesh of {} workers divides this request: {} of {} samples", request.hardware.workers,
                        request.workload.model.name, request.workload.batch);
}

}  // namespace

std::vector<Arrangement> arrangements(const PlanRequest& request) {
  std::vector<Arrangement> all;
  for (const Mesh& mesh : meshes(request)) {
    for (const auto& [kind, chunks] : schedules(request, mesh.pipe)) {
      for (const std::uint32_t count : micro_batches(request, mesh)) {
        for (std::uint32_t zero = 0; zero <= 3; ++zero) {
          if (request.zero && zero != *request.zero) continue;
          if (zero == 3 && (mesh.pipe > 1 || mesh.tensor > 1)) continue;  // `trireme train` has no such thing
          for (const bool recompute : {false, true}) {
            if (request.recompute && recompute != *request.recompute) continue;
            if (recompute && mesh.pipe == 1) continue;  // stages do
            const Arrangement arrangement{.mesh = mesh,
                                          .zero = zero,
                                          .schedule = kind,
                                          .chunks = chunks,
                                          .micro_batches = count,
                                          .recompute = recompute,
                                          .offload = request.offload,
                                          .shards = zero > 0 ? request.shards : 0};
            if (!why_impossible(request.workload, request.hardware, arrangement)) all.push_back(arrangement);
          }
        }
      }
    }
  }
  return all;
}

std::vector<Candidate> predict_all(const PlanRequest& request) {
  std::vector<Candidate> candidates;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, PlacedMesh> placed;
  for (const Arrangement& arrangement : arrangements(request)) {
    const Mesh& mesh = arrangement.mesh;
    const auto [place, added] = placed.try_emplace({mesh.data, mesh.pipe, mesh.tensor});
    if (added) place->second = place_ranks(mesh, request.hardware.hosts);
    Candidate candidate{arrangement, predict(request.workload, request.hardware, arrangement, place->second), false};
    candidate.fits = candidate.prediction.memory.total() <= request.hardware.memory;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Plan make_plan(const PlanRequest& request) {
  Plan plan{.candidates = predict_all(request)};
  plan.considered = plan.candidates.size();
  plan.fitting = static_cast<std::size_t>(std::ranges::count_if(plan.candidates, &Candidate::fits));
  if (plan.candidates.empty()) refuse(request);
  if (plan.fits()) {
    std::erase_if(plan.candidates, [](const Candidate& each) { return !each.fits; });
    std::ranges::stable_sort(plan.candidates, {}, [](const Candidate& c) { return c.prediction.step_seconds; });
    const double good = plan.best().prediction.step_seconds * kAsGood;
    const auto rest =
        std::ranges::find_if(plan.candidates, [&](const Candidate& c) { return c.prediction.step_seconds > good; });
    const auto simplest = std::ranges::min_element(plan.candidates.begin(), rest, {},
                                                   [](const Candidate& c) { return simplicity(c.arrangement); });
    std::rotate(plan.candidates.begin(), simplest, simplest + 1);
  } else {
    std::ranges::stable_sort(plan.candidates, {}, [](const Candidate& c) { return c.prediction.memory.total(); });
  }
  plan.reasons = explain_choice(request, plan);
  if (!plan.fits()) plan.knobs = find_knobs(request);
  return plan;
}

}  // namespace trireme::plan
