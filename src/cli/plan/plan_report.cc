#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/plan/options.h"
#include "observe/table.h"
#include "plan/advice.h"
#include "plan/schedule/schedule_picture.h"
#include "plan/schedule/schedule_text.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string thousands(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

/// "3.51 T", "12.3 M".
std::string magnitude(double number) {
  for (const auto& [size, letter] : {std::pair{1e15, 'P'}, std::pair{1e12, 'T'}, std::pair{1e9, 'G'}}) {
    if (number >= size) return fmt::format("{:.3g} {}", number / size, letter);
  }
  return fmt::format("{:.3g} M", number / 1e6);
}

std::string link_text(const plan::Link& link) {
  return fmt::format("{:.4g} Gbit/s and {}", link.bytes_per_second * 8 / 1e9, plan::duration_text(link.latency));
}

std::string request_text(const PlanFlags& flags, const plan::PlanRequest& request) {
  const plan::Workload& workload = request.workload;
  const plan::Hardware& hardware = request.hardware;
  const plan::ModelCost& model = workload.model;
  std::string text =
      fmt::format("{}: {} parameters in {} layers, {} flop forward per sample ({})\n", model.name,
                  thousands(model.parameters()), model.layers.size(), magnitude(model.forward_flops()), model.sample);
  text += fmt::format("batch {} per step, {}, {}, {} sums of micro-batches\n", workload.batch,
                      plan::name_of(workload.precision), flags.optimizer, flags.reduction);
  text += fmt::format("{} worker{} on {} host{}: {} and {:.4g} Tflop/s each, network {}", hardware.workers,
                      hardware.workers == 1 ? "" : "s", hardware.hosts, hardware.hosts == 1 ? "" : "s",
                      plan::gigabytes(hardware.memory), hardware.flops / 1e12, link_text(hardware.links.network));
  if (hardware.hosts < hardware.workers) text += fmt::format(", within a host {}", link_text(hardware.links.host));
  text += "\n";
  if (hardware.measured) {
    text += fmt::format("measured here ({} cores): {}\n", hardware.measured->cores,
                        hardware.measured->times(model, workload.precision)
                            ? "the times of this model's layers"
                            : fmt::format("flops with {}; for this model: trireme plan --calibrate --model {}",
                                          hardware.measured->model, model.name));
  }
  return text;
}

std::string schedule_cell(const plan::Arrangement& arrangement) {
  if (arrangement.mesh.pipe == 1) return "-";
  if (arrangement.schedule != plan::ScheduleKind::kInterleaved) return std::string(name_of(arrangement.schedule));
  return fmt::format("interleaved x{}", arrangement.chunks);
}

std::string candidate_table(const plan::Plan& plan, std::size_t top) {
  observe::TableCells cells = {{"data", "pipe", "tensor", "ZeRO", "schedule", "micro-batches", "recompute", "memory",
                                "step", "bubble", "flops used"}};
  for (std::size_t i = 0; i < std::min(top, plan.candidates.size()); ++i) {
    const auto& [arrangement, prediction, fits] = plan.candidates[i];
    cells.push_back({fmt::format("{}", arrangement.mesh.data), fmt::format("{}", arrangement.mesh.pipe),
                     fmt::format("{}", arrangement.mesh.tensor), fmt::format("{}", arrangement.zero),
                     schedule_cell(arrangement), fmt::format("{}", arrangement.micro_batches),
                     arrangement.recompute ? "yes" : "no", plan::gigabytes(prediction.memory.total()),
                     plan::duration_text(prediction.step_seconds), fmt::format("{:.1f} %", 100 * prediction.bubble),
                     fmt::format("{:.1f} %", 100 * prediction.efficiency)});
  }
  return observe::aligned(cells, {true, true, true, true, false, true, false, true, true, true, true});
}

std::string goodput_text(const GoodputAnswer& answer) {
  const plan::FailureModel& model = answer.model;
  std::string text = "\nWith failures and stragglers (simulated):\n";
  const auto line = [&](const char* how, const plan::Goodput& goodput) {
    text += fmt::format("  {}: goodput {:.1f} %; {} steps in {:.1f} h with {} failures", how, 100 * goodput.share,
                        thousands(goodput.steps), goodput.simulated_seconds / 3600, goodput.failures);
    if (model.worker_mtbf > 0 && goodput.interval > 0) {
      text += fmt::format("; a checkpoint every {}", plan::duration_text(goodput.interval));
    }
    const double all = goodput.simulated_seconds / 100;
    text += fmt::format(
        "\n    lost: checkpoints {:.2f} %, computed again {:.2f} %, restarts {:.2f} %, stragglers {:.2f} %\n",
        goodput.checkpoint_seconds / all, goodput.repeated_seconds / all, goodput.restart_seconds / all,
        goodput.straggler_seconds / all);
  };
  line("from the last checkpoint", answer.from_checkpoint);
  if (answer.from_replica) line("from a replica (data > 1, no ZeRO)", *answer.from_replica);
  return text;
}

Json memory_json(const plan::RankMemory& memory) {
  return {{"weights", memory.state.weights},     {"gradients", memory.state.gradients},
          {"optimizer", memory.state.optimizer}, {"activations", memory.activations},
          {"working", memory.working},           {"total", memory.total()}};
}

Json candidate_json(const plan::Candidate& candidate) {
  const auto& [arrangement, prediction, fits] = candidate;
  return {{"mesh", to_text(arrangement.mesh)},
          {"zero", arrangement.zero},
          {"schedule", name_of(arrangement.schedule)},
          {"chunks", arrangement.chunks},
          {"micro_batches", arrangement.micro_batches},
          {"recompute", arrangement.recompute},
          {"offload", arrangement.offload},
          {"fits", fits},
          {"memory_bytes", memory_json(prediction.memory)},
          {"step_seconds", prediction.step_seconds},
          {"pipeline_seconds", prediction.pipeline_seconds},
          {"tensor_seconds", prediction.tensor_seconds},
          {"data_seconds", prediction.data_seconds},
          {"exposed_seconds", prediction.exposed_seconds},
          {"message_seconds", prediction.message_seconds},
          {"update_seconds", prediction.update_seconds},
          {"crowded_seconds", prediction.crowded_seconds},
          {"bubble", prediction.bubble},
          {"efficiency", prediction.efficiency},
          {"stages", prediction.stages},
          {"placement", prediction.placement}};
}

Json goodput_json(const plan::Goodput& goodput) {
  return {{"share", goodput.share},
          {"interval_seconds", goodput.interval},
          {"simulated_seconds", goodput.simulated_seconds},
          {"steps", goodput.steps},
          {"failures", goodput.failures},
          {"checkpoint_seconds", goodput.checkpoint_seconds},
          {"repeated_seconds", goodput.repeated_seconds},
          {"restart_seconds", goodput.restart_seconds},
          {"straggler_seconds", goodput.straggler_seconds}};
}

std::string plan_json(const plan::PlanRequest& request, const plan::Plan& plan, std::size_t top,
                      const std::optional<GoodputAnswer>& goodput) {
  Json json = {{"model", request.workload.model.name},
               {"parameters", request.workload.model.parameters()},
               {"forward_flops_per_sample", request.workload.model.forward_flops()},
               {"batch", request.workload.batch},
               {"precision", name_of(request.workload.precision)},
               {"workers", request.hardware.workers},
               {"hosts", request.hardware.hosts},
               {"memory_bytes", request.hardware.memory},
               {"calibrated", request.hardware.measured != nullptr},
               {"fits", plan.fits()},
               {"considered", plan.considered},
               {"fitting", plan.fitting},
               {"reasons", plan.reasons},
               {"candidates", Json::array()},
               {"knobs", Json::array()}};
  for (std::size_t i = 0; i < std::min(top, plan.candidates.size()); ++i) {
    json["candidates"].push_back(candidate_json(plan.candidates[i]));
  }
  for (const plan::Knob& knob : plan.knobs) json["knobs"].push_back({{"change", knob.change}, {"effect", knob.effect}});
  if (goodput) {
    json["goodput"]["from_checkpoint"] = goodput_json(goodput->from_checkpoint);
    if (goodput->from_replica) json["goodput"]["from_replica"] = goodput_json(*goodput->from_replica);
  }
  return json.dump(2) + "\n";
}

/// The recommended pipeline, with its own times.
void write_pictures(const PlanFlags& flags, const plan::Candidate& best) {
  if (flags.svg.empty() && flags.csv.empty()) return;
  if (best.arrangement.mesh.pipe == 1) {
    fail<InvalidArgument>("{}: the plan has no pipeline to draw; give a --mesh with one, or --stages",
                          flags.svg.empty() ? "--csv" : "--svg");
  }
  const plan::Schedule schedule = plan::make_schedule(best.arrangement.schedule_shape());
  if (!flags.csv.empty()) {
    write_text(flags.csv, plan::to_csv(flags.messages ? plan::with_messages(schedule) : schedule));
  }
  if (flags.svg.empty()) return;
  const auto& [arrangement, prediction, fits] = best;
  write_text(flags.svg,
             plan::svg_picture(schedule, plan::evaluate(schedule, prediction.stage_times, prediction.message_seconds)));
}

/// The flags of `trireme train` that train so; the data, for which FILES stands, and the rest are the user's.
std::string train_line(const PlanFlags& flags, const plan::PlanRequest& request, const plan::Arrangement& best) {
  const plan::ModelCost& model = request.workload.model;
  std::string line = fmt::format("To train so: trireme train --model {} --data FILES", model.name);
  if (model.input.length > 0) line += fmt::format(" --length {}", model.input.length);
  line +=
      fmt::format(" --batch {} --lanes {}", request.workload.batch, std::uint64_t{best.mesh.data} * best.micro_batches);
  const bool divided = best.mesh.pipe > 1 || best.mesh.tensor > 1;
  line += divided ? " --mesh " + plan::to_text(best.mesh) : fmt::format(" --workers {}", best.mesh.data);
  if (best.zero > 0) line += fmt::format(" --strategy zero:{}", best.zero);
  if (best.zero == 0 && !divided && !best.offload) line += " --strategy allreduce";
  if (best.mesh.pipe > 1 && best.schedule == plan::ScheduleKind::kInterleaved) {
    line += fmt::format(" --pipeline interleaved:{}", best.chunks);
  } else if (best.mesh.pipe > 1 && best.schedule != plan::ScheduleKind::k1F1B) {
    line += fmt::format(" --pipeline {}", name_of(best.schedule));
  }
  if (best.recompute && best.mesh.pipe > 1) line += " --recompute";
  if (best.offload) line += " --offload";
  if (flags.precision != "fp32") line += " --precision " + flags.precision;
  return line + "\n";
}

}  // namespace

PlanAnswer answer_plan(const PlanFlags& flags) {
  const plan::PlanRequest request = plan_request(flags);
  const plan::Plan plan = plan::make_plan(request);
  const plan::Candidate& best = plan.best();
  const auto goodput = goodput_of(flags, request, best);
  write_pictures(flags, best);
  const int status = plan.fits() ? 0 : 1;
  if (flags.json) return {plan_json(request, plan, flags.top, goodput), status};
  std::string text = request_text(flags, request) + "\n";
  text +=
      fmt::format("{}: {}\n", plan.fits() ? "Recommended" : "DOES NOT FIT; the smallest", to_text(best.arrangement));
  if (plan.fits()) {
    const double pace = static_cast<double>(request.workload.batch) / best.prediction.step_seconds;
    text += fmt::format("  {} per step, {:.{}f} samples per second, {:.1f} % of the workers' flops used\n",
                        plan::duration_text(best.prediction.step_seconds), pace, pace < 100 ? 1 : 0,
                        100 * best.prediction.efficiency);
  }
  for (const std::string& reason : plan.reasons) text += fmt::format("  - {}\n", reason);
  if (!plan.knobs.empty()) text += "\nWhat would help:\n";
  for (const plan::Knob& knob : plan.knobs) text += fmt::format("  {}: {}\n", knob.change, knob.effect);
  text += "\n" + plan::picture(plan::Placement(best.arrangement.mesh, plan::kTrainedOrder, request.hardware.hosts));
  text += "\n" + candidate_table(plan, flags.top);
  if (goodput) text += goodput_text(*goodput);
  if (plan.fits()) text += "\n" + train_line(flags, request, best.arrangement);
  return {text, status};
}

}  // namespace trireme::cli
