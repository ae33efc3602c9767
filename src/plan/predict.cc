#include "plan/predict.h"

#include <algorithm>

#include "base/error.h"
#include "plan/split_layers.h"

namespace trireme::plan {
namespace {

/// What one stage costs a rank, per micro-batch where that matters.
struct StageCost {
  double parameters = 0;  ///< after the split by tensor
  double largest = 0;     ///< parameters of its largest layer
  double compute = 0;     ///< seconds of a forward
  double backward = 0;    ///< seconds of both gradients
  double again = 0;       ///< of these: blocks that the backward computes again
  double summed_again = 0;
  double summed_forward = 0;
  double summed_backward = 0;
  double kept_bytes = 0;
  double again_bytes = 0;  ///< what the largest block needs when it is computed again
};

class Predictor {
 public:
  Predictor(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement,
            const std::vector<PlacementChoice>& choices)
      : workload_(workload),
        hardware_(hardware),
        arrangement_(arrangement),
        mesh_(arrangement.mesh),
        choices_(choices) {}

  Prediction run() {
    cut_stages();
    place();
    time_stages();
    const ScheduleShape shape = arrangement_.schedule_shape();
    const Evaluation evaluation = evaluate_long(shape, result_.stage_times, result_.message_seconds);
    rank_of_stage_ = make_schedule({shape.kind, shape.ranks, 1, shape.chunks}).rank_of_stage;
    result_.pipeline_seconds = evaluation.makespan;
    result_.bubble = evaluation.bubble;
    count_memory(evaluation);
    finish_step(evaluation);
    share_cores();
    const double useful = 3 * workload_.model.forward_flops() * static_cast<double>(workload_.batch);
    result_.efficiency = useful / (hardware_.flops * hardware_.workers * result_.step_seconds);
    return std::move(result_);
  }

 private:
  double samples() const { return static_cast<double>(workload_.batch) / mesh_.data / arrangement_.micro_batches; }

  double tied_parameters() const { return static_cast<double>(workload_.model.tied_parameters) / mesh_.tensor; }

  /// Whether the first and the last stage, which share parameters, are on different ranks; the V brings them together.
  bool copies_tied() const { return mesh_.pipe > 1 && arrangement_.schedule != ScheduleKind::kZbV; }

  double bytes_each() const { return element_bytes(workload_.precision); }

  double parameters_of(const LayerCost& layer) const {
    return static_cast<double>(layer.parameters - layer.split_parameters) +
           static_cast<double>(layer.split_parameters) / mesh_.tensor;
  }

  void cut_stages() {
    std::vector<double> costs;
    for (const LayerCost& layer : workload_.model.layers) costs.push_back(layer.forward_flops);
    const std::size_t count = std::size_t{mesh_.pipe} * arrangement_.chunks;
    result_.stages = split_layers(costs, count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t end = i + 1 < count ? result_.stages[i + 1] : costs.size();
      stages_.push_back(cost_of(result_.stages[i], end));
    }
    if (copies_tied()) stages_.back().parameters += tied_parameters();
  }

  bool measured() const {
    return hardware_.measured != nullptr && hardware_.measured->times(workload_.model, workload_.precision);
  }

  /// What a micro-batch takes in a layer.
  LayerTiming time_of(std::size_t layer) const {
    if (measured()) {
      const LayerTiming whole = hardware_.measured->timing(layer, samples());
      return {whole.forward / mesh_.tensor, whole.backward / mesh_.tensor};
    }
    const double forward = workload_.model.layers[layer].forward_flops * samples() / mesh_.tensor / hardware_.flops;
    return {forward, 2 * forward};
  }

  /// Copying a micro-batch's gradients to where they are summed, and adding them there: about twice as much memory
  /// moves for a sum as for a copy, and the first one is none.
  double summation_seconds(double parameters) const {
    if (!measured()) return 0;
    const double m = arrangement_.micro_batches;
    return parameters * 4 * hardware_.measured->copy_seconds * (1 + 2 * (m - 1) / m);
  }

  StageCost cost_of(std::size_t begin, std::size_t end) const {
    StageCost cost;
    for (std::size_t i = begin; i < end; ++i) {
      const LayerCost& layer = workload_.model.layers[i];
      const double parameters = parameters_of(layer);
      cost.parameters += parameters;
      cost.largest = std::max(cost.largest, parameters);
      const LayerTiming timing = time_of(i);
      const double compute = timing.forward;
      cost.compute += compute;
      cost.backward += timing.backward;
      cost.summed_forward += layer.summed_forward * samples() * bytes_each();
      cost.summed_backward += layer.summed_backward * samples() * bytes_each();
      const double input = layer.input * bytes_each();
      const double all = input + layer.kept * bytes_each() + layer.kept_bytes;
      const bool again = arrangement_.recompute && layer.recomputable;
      cost.kept_bytes += (again ? input : all) * samples() / mesh_.tensor;
      if (!again) continue;
      cost.again += compute;
      cost.summed_again += layer.summed_forward * samples() * bytes_each();
      cost.again_bytes = std::max(cost.again_bytes, (all - input) * samples() / mesh_.tensor);
    }
    return cost;
  }

  /// Elements that pass from one stage to the next, at most.
  double message_bytes() const {
    double most = 0;
    for (std::size_t i = 1; i < result_.stages.size(); ++i) {
      most = std::max(most, workload_.model.layers[result_.stages[i] - 1].output);
    }
    return most * samples() * bytes_each() / mesh_.tensor;
  }

  void place() {
    const double steps = arrangement_.micro_batches;
    Traffic traffic;
    for (const StageCost& stage : stages_) {
      traffic.data += 2 * stage.parameters * 4 / mesh_.pipe * (arrangement_.zero >= 2 ? steps : 1);
      traffic.tensor += 2 * (stage.summed_forward + stage.summed_backward) / mesh_.pipe * steps;
    }
    traffic.pipe = 2 * message_bytes() * steps * arrangement_.chunks;
    for (const Dimension dimension : kDimensions) {
      if (mesh_.size(dimension) > 1) continue;
      (dimension == Dimension::kData   ? traffic.data
       : dimension == Dimension::kPipe ? traffic.pipe
                                       : traffic.tensor) = 0;
    }
    const PlacedMesh placed = place_ranks(mesh_, choices_, traffic);
    result_.placement = placed.reason;
    result_.order = placed.choice.order;
    data_ = placed.choice.span(Dimension::kData);
    tensor_ = placed.choice.span(Dimension::kTensor);
    pipe_ = placed.choice.span(Dimension::kPipe);
  }

  void time_stages() {
    for (const StageCost& stage : stages_) {
      const double sums_forward = all_reduce_seconds(hardware_.links, tensor_, stage.summed_forward);
      const double sums_backward = all_reduce_seconds(hardware_.links, tensor_, stage.summed_backward);
      const double again = stage.again + all_reduce_seconds(hardware_.links, tensor_, stage.summed_again);
      StageTimes times{.forward = stage.compute + sums_forward,
                       .backward_input = stage.backward / 2 + sums_backward + again,
                       .backward_weight = stage.backward / 2 + summation_seconds(stage.parameters),
                       .activations = stage.kept_bytes};
      if (arrangement_.zero >= 3) {  // the next layers' weights arrive while these compute
        const double gather = reduce_scatter_seconds(hardware_.links, data_, stage.parameters * bytes_each());
        times.forward = std::max(times.forward, gather);
        times.backward_input = std::max(times.backward_input, gather);
      }
      if (arrangement_.zero >= 2) {  // gradients leave micro-batch by micro-batch: nobody holds the whole sum
        const double scatter = reduce_scatter_seconds(hardware_.links, data_, stage.parameters * 4);
        times.backward_weight = std::max(times.backward_weight, scatter);
      }
      result_.stage_times.push_back(times);
    }
    const Link& link = pipe_.within_host() ? hardware_.links.host : hardware_.links.network;
    result_.message_seconds = mesh_.pipe > 1 ? link.seconds(message_bytes()) : 0;
  }

  void count_memory(const Evaluation& evaluation) {
    const StateOptions options{.precision = workload_.precision,
                               .optimizer_values = workload_.optimizer_values,
                               .zero = arrangement_.zero,
                               .data = mesh_.data,
                               .gradient_buffers = summation_buffers(arrangement_.micro_batches, workload_.any_order)};
    for (Rank rank = 0; rank < mesh_.pipe; ++rank) {
      RankMemory memory{.activations = evaluation.ranks[rank].peak_bytes};
      double parameters = 0;
      double largest = 0;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        if (rank_of_stage_[stage] != rank) continue;
        parameters += stages_[stage].parameters;
        largest = std::max(largest, stages_[stage].largest);
        memory.working = std::max(memory.working, stages_[stage].again_bytes);
      }
      memory.state = state_bytes(parameters, options);
      if (arrangement_.offload) memory.state.optimizer = 0;
      if (mesh_.data > 1 && arrangement_.zero >= 2) memory.working += largest * 4;                 // its gradient
      if (mesh_.data > 1 && arrangement_.zero >= 3) memory.working += 2 * largest * bytes_each();  // it, and the next
      if (memory.total() > result_.memory.total()) result_.memory = memory;
      result_.rank_memory.push_back(memory);
    }
  }

  /// What a rank's parameters take the optimizer, at the end of a step.
  double update_seconds(double parameters) const {
    if (!measured() || arrangement_.offload) return 0;
    return parameters / (arrangement_.zero > 0 ? mesh_.data : 1) * hardware_.measured->update_seconds;
  }

  /// Workers that share cores cannot all compute at once: a step takes at least what all of them compute.
  void share_cores() {
    const double each = static_cast<double>(hardware_.workers) / hardware_.hosts;
    if (hardware_.cores == 0 || each <= hardware_.cores) return;
    double work = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const StageTimes& times = result_.stage_times[stage];
      work +=
          (times.forward + times.backward()) * arrangement_.micro_batches + update_seconds(stages_[stage].parameters);
    }
    work *= static_cast<double>(mesh_.data) * mesh_.tensor;
    result_.crowded_seconds = work / (static_cast<double>(hardware_.cores) * hardware_.hosts);
    result_.step_seconds = std::max(result_.step_seconds, result_.crowded_seconds);
  }

  /// What follows the backward: gradients that are still on their way, weights that ZeRO gathers, the tied embedding.
  void finish_step(const Evaluation& evaluation) {
    const Link& link = pipe_.within_host() ? hardware_.links.host : hardware_.links.network;
    for (Rank rank = 0; rank < mesh_.pipe; ++rank) {
      double parameters = 0;
      double backward = 0;
      double sums = 0;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        if (rank_of_stage_[stage] != rank) continue;
        parameters += stages_[stage].parameters;
        backward += result_.stage_times[stage].backward();
        sums += all_reduce_seconds(hardware_.links, tensor_, stages_[stage].summed_forward) +
                all_reduce_seconds(hardware_.links, tensor_, stages_[stage].summed_backward);
      }
      const double scatter = reduce_scatter_seconds(hardware_.links, data_, parameters * 4);
      const double gather = reduce_scatter_seconds(hardware_.links, data_, parameters * bytes_each());
      double communicated = scatter + gather;
      double exposed = std::max(0.0, communicated - backward);  // an all-reduce, started layer by layer
      if (arrangement_.zero == 1) exposed = std::max(0.0, scatter - backward) + gather;
      if (arrangement_.zero == 2) exposed = gather;
      if (arrangement_.zero == 3) exposed = 0;
      if (arrangement_.offload) {  // gradients go to the servers while backward runs, new weights come back after it
        const Link& to_servers = hardware_.hosts > 1 ? hardware_.links.network : hardware_.links.host;
        const double push = to_servers.seconds(parameters * 4);
        communicated = 2 * push;
        exposed = std::max(0.0, push - backward) + push;
      }
      if (arrangement_.zero == 2) communicated = scatter * arrangement_.micro_batches + gather;
      if (arrangement_.zero == 3) communicated = (scatter + 2 * gather) * arrangement_.micro_batches;
      if (copies_tied() && (rank == 0 || rank + 1 == mesh_.pipe)) {
        const double tied = all_reduce_seconds(link, 2, tied_parameters() * 4);
        exposed += tied;
        communicated += tied;
      }
      const double update = update_seconds(parameters);
      result_.update_seconds = std::max(result_.update_seconds, update);
      result_.step_seconds = std::max(result_.step_seconds, evaluation.ranks[rank].last + exposed + update);
      result_.data_seconds = std::max(result_.data_seconds, communicated);
      result_.exposed_seconds = std::max(result_.exposed_seconds, exposed);
      result_.tensor_seconds = std::max(result_.tensor_seconds, sums * arrangement_.micro_batches);
    }
  }

  const Workload& workload_;
  const Hardware& hardware_;
  const Arrangement& arrangement_;
  const Mesh& mesh_;
  const std::vector<PlacementChoice>& choices_;
  std::vector<StageCost> stages_;
  std::vector<Rank> rank_of_stage_;
  GroupSpan data_;
  GroupSpan tensor_;
  GroupSpan pipe_;
  Prediction result_;
};

/// The divisor of `whole` that is closest to `wanted`.
std::uint64_t nearest_divisor(std::uint64_t whole, std::uint64_t wanted) {
  for (std::uint64_t distance = 0; distance < std::max(whole, wanted); ++distance) {
    if (wanted > distance && whole % (wanted - distance) == 0) return wanted - distance;
    if (whole % (wanted + distance) == 0) return wanted + distance;
  }
  return 1;
}

}  // namespace

std::string to_text(const Arrangement& arrangement) {
  std::string text = to_text(arrangement.mesh);
  if (arrangement.zero > 0) text += fmt::format(", ZeRO {}", arrangement.zero);
  if (arrangement.mesh.pipe > 1) {
    text += fmt::format(", {}", name_of(arrangement.schedule));
    if (arrangement.schedule == ScheduleKind::kInterleaved) text += fmt::format(" x{}", arrangement.chunks);
  }
  text += fmt::format(", {} micro-batch{}", arrangement.micro_batches, arrangement.micro_batches == 1 ? "" : "es");
  if (arrangement.recompute) text += ", recompute";
  if (arrangement.offload) text += ", offload";
  return text;
}

std::optional<std::string> why_indivisible(const ModelCost& model, const Mesh& mesh, std::uint32_t chunks,
                                           std::uint32_t tensor_lanes) {
  if (mesh.tensor > 1 && model.heads == 0 && !model.any_slices) {
    return fmt::format("the dimension tensor splits transformers and mlp, not {}: use tensor=1", model.name);
  }
  if (mesh.tensor > 1 && model.heads > 0 && model.heads % mesh.tensor != 0) {
    return fmt::format("{} has {} attention heads, which {} tensor ranks do not divide: the nearest is tensor={}",
                       model.name, model.heads, mesh.tensor, nearest_divisor(model.heads, mesh.tensor));
  }
  if (tensor_lanes > 1 && model.heads > 0 && model.heads % tensor_lanes != 0) {
    return fmt::format("{} has {} attention heads, which {} tensor lanes do not divide: the nearest is {}", model.name,
                       model.heads, tensor_lanes, nearest_divisor(model.heads, tensor_lanes));
  }
  const std::uint64_t stages = std::uint64_t{mesh.pipe} * chunks;
  if (stages > model.layers.size()) {
    return fmt::format("{} has {} layers, too few for {} stages ({} ranks, {} each): at most pipe={}", model.name,
                       model.layers.size(), stages, mesh.pipe, chunks,
                       std::max<std::uint64_t>(1, model.layers.size() / chunks));
  }
  return std::nullopt;
}

std::optional<std::string> why_impossible(const Workload& workload, const Hardware& hardware,
                                          const Arrangement& arrangement) {
  const Mesh& mesh = arrangement.mesh;
  const ModelCost& model = workload.model;
  if (hardware.hosts < 1 || hardware.hosts > hardware.workers) {
    return fmt::format("{} workers cannot be on {} hosts: at most one host each", hardware.workers, hardware.hosts);
  }
  if (mesh.ranks() != hardware.workers) {
    return fmt::format("mesh {} has {} ranks, and there are {} workers", to_text(mesh), mesh.ranks(), hardware.workers);
  }
  if (mesh.tensor > 1 && model.any_slices) {
    return fmt::format("what tensor={} costs is known of transformers only, not of {}: use tensor=1", mesh.tensor,
                       model.name);
  }
  if (const auto reason = why_indivisible(model, mesh, arrangement.chunks, mesh.tensor)) return reason;
  if (workload.batch % mesh.data != 0) {
    return fmt::format("a batch of {} does not divide by data={}: the nearest is data={}", workload.batch, mesh.data,
                       nearest_divisor(workload.batch, mesh.data));
  }
  const std::uint64_t share = workload.batch / mesh.data;
  if (share % arrangement.micro_batches != 0) {
    return fmt::format("the {} samples of a data rank do not divide into {} micro-batches: the nearest is {}", share,
                       arrangement.micro_batches, nearest_divisor(share, arrangement.micro_batches));
  }
  if (arrangement.offload && (arrangement.zero > 0 || mesh.pipe > 1 || mesh.tensor > 1)) {
    return fmt::format("offload keeps whole models on workers and the optimizer's state on servers: not with {}",
                       to_text(arrangement));
  }
  if (arrangement.zero > 0 && mesh.data == 1) {
    return fmt::format("ZeRO {} shards among the ranks of the dimension data, and data=1", arrangement.zero);
  }
  return std::nullopt;
}

Prediction predict(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement,
                   const std::vector<PlacementChoice>& choices) {
  if (const auto reason = why_impossible(workload, hardware, arrangement)) throw InvalidArgument(*reason);
  return Predictor(workload, hardware, arrangement, choices).run();
}

Prediction predict(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement) {
  if (const auto reason = why_impossible(workload, hardware, arrangement)) throw InvalidArgument(*reason);
  return predict(workload, hardware, arrangement, placement_choices(arrangement.mesh, hardware.hosts));
}

}  // namespace trireme::plan
