#include "plan/predict.h"

#include <algorithm>

#include "base/error.h"
#include "plan/cost/peak_memory.h"
#include "plan/cost/split_layers.h"

namespace trireme::plan {
namespace {

/// What one stage costs a rank, per micro-batch where that matters.
struct StageCost {
  double parameters = 0;  ///< after the split by tensor; tied ones in the last stage that uses them
  double copied = 0;      ///< parameters that another rank owns: weights only
  double compute = 0;     ///< seconds of a forward
  double backward = 0;    ///< seconds of both gradients
  double again = 0;       ///< of these: blocks that the backward computes again
  double summed_again = 0;
  double summed_forward = 0;
  double summed_backward = 0;
  StageMemory memory = {};
};

constexpr double kFloatBytes = 4;

class Predictor {
 public:
  Predictor(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement,
            const PlacedMesh& placed)
      : workload_(workload),
        hardware_(hardware),
        arrangement_(arrangement),
        mesh_(arrangement.mesh),
        data_(placed.span(Dimension::kData)),
        tensor_(placed.span(Dimension::kTensor)),
        pipe_(placed.span(Dimension::kPipe)) {
    result_.placement = placed.reason;
  }

  Prediction run() {
    cut_stages();
    time_stages();
    const ScheduleShape shape = arrangement_.schedule_shape();
    const Evaluation evaluation = evaluate_long(shape, result_.stage_times, result_.message_seconds);
    rank_of_stage_ = make_schedule({shape.kind, shape.ranks, 1, shape.chunks}).rank_of_stage;
    result_.pipeline_seconds = evaluation.makespan;
    result_.bubble = evaluation.bubble;
    const bool all_at_once = shape.kind == ScheduleKind::kGpipe && mesh_.pipe > 1;  // so all have to be run
    count_memory(all_at_once ? evaluate(make_schedule(shape), result_.stage_times, result_.message_seconds)
                             : evaluation);
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
    if (mesh_.pipe == 1) return;
    stages_.front().parameters -= tied_parameters();
    if (copies_tied()) stages_.front().copied = tied_parameters();
    stages_.back().parameters += tied_parameters();
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const LayerCost& last = workload_.model.layers[result_.stages[i + 1] - 1];
      stages_[i].memory.output = last.output * samples() * bytes_each() / mesh_.tensor;
    }
  }

  /// What a micro-batch takes in a layer. The dimension tensor divides all but what is gathered in front of products.
  LayerMemory memory_of(std::size_t i) const {
    const LayerCost& layer = workload_.model.layers[i];
    const bool last = i + 1 == workload_.model.layers.size();
    const double scale = samples() / mesh_.tensor;
    const double gathered = layer.gathered * bytes_each() * samples() * (1 - 1.0 / mesh_.tensor);
    const double input = layer.input * bytes_each() * scale;
    const double all = input + (layer.kept * bytes_each() + layer.kept_bytes) * scale + gathered;
    LayerMemory memory{.kept = all,
                       .loss = layer.loss_bytes * scale,
                       .passing = layer.passing * bytes_each() * scale,
                       .passing_more = layer.passing_more * bytes_each() * scale,
                       .deferred = layer.deferred * bytes_each() * scale + gathered,
                       .gradients = parameters_of(layer) * kFloatBytes,
                       .largest = static_cast<double>(layer.largest_tensor()) * kFloatBytes};
    if (layer.split_parameters > 0) memory.largest /= mesh_.tensor;
    if (last && workload_.model.tied_parameters > 0) {  // the head's product is with the embedding
      memory.gradients += tied_parameters() * kFloatBytes;
      memory.largest = tied_parameters() * kFloatBytes;
    }
    if (arrangement_.recompute && layer.recomputable) {
      memory.kept = input;
      memory.again = all - input;
    }
    memory.kept += memory.loss;
    return memory;
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
      cost.memory.layers.push_back(memory_of(i));
      const LayerTiming timing = time_of(i);
      const double compute = timing.forward;
      cost.compute += compute;
      cost.backward += timing.backward;
      cost.summed_forward += layer.summed_forward * samples() * bytes_each();
      cost.summed_backward += layer.summed_backward * samples() * bytes_each();
      if (!arrangement_.recompute || !layer.recomputable) continue;
      cost.again += compute;
      cost.summed_again += layer.summed_forward * samples() * bytes_each();
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

  void time_stages() {
    for (const StageCost& stage : stages_) {
      const double sums_forward = all_reduce_seconds(hardware_.links, tensor_, stage.summed_forward);
      const double sums_backward = all_reduce_seconds(hardware_.links, tensor_, stage.summed_backward);
      const double again = stage.again + all_reduce_seconds(hardware_.links, tensor_, stage.summed_again);
      StageTimes times{.forward = stage.compute + sums_forward,
                       .backward_input = stage.backward / 2 + sums_backward + again,
                       .backward_weight = stage.backward / 2 + summation_seconds(stage.parameters),
                       .activations = stage.memory.kept()};
      if (arrangement_.zero >= 3) {  // the next layers' weights arrive while these compute
        const double gather = reduce_scatter_seconds(hardware_.links, data_, stage.parameters * bytes_each());
        times.forward = std::max(times.forward, gather);
        times.backward_input = std::max(times.backward_input, gather);
      }
      result_.stage_times.push_back(times);
    }
    const Link& link = pipe_.within_host() ? hardware_.links.host : hardware_.links.network;
    result_.message_seconds = mesh_.pipe > 1 ? link.seconds(message_bytes()) : 0;
  }

  /// Ranks among which ZeRO divides.
  std::uint32_t shards() const { return arrangement_.shards > 0 ? arrangement_.shards : mesh_.data; }

  void count_memory(const Evaluation& evaluation) {
    const std::vector<StageMemory> stages = stage_memory();
    for (Rank rank = 0; rank < mesh_.pipe; ++rank) {
      RankMemory memory = state_of(rank);
      const PeakMemory peak = mesh_.pipe > 1 ? pipeline_peak(share_of(rank), stages, evaluation) : alone_peak();
      memory.state.gradients += peak.sums;
      memory.activations = peak.activations;
      memory.working += peak.working;
      if (memory.total() > result_.memory.total()) result_.memory = memory;
      result_.rank_memory.push_back(memory);
    }
  }

  std::vector<StageMemory> stage_memory() const {
    std::vector<StageMemory> memory;
    for (const StageCost& stage : stages_) memory.push_back(stage.memory);
    return memory;
  }

  /// Without a pipeline: one micro-batch after the other, whose gradients are added where they are kept.
  PeakMemory alone_peak() const {
    StageMemory memory;
    for (const StageCost& stage : stages_) {
      memory.layers.insert(memory.layers.end(), stage.memory.layers.begin(), stage.memory.layers.end());
    }
    return {.activations = memory.kept(),
            .sums = 0,
            .working = backward_peak(memory, tied_parameters() * kFloatBytes) - memory.kept()};
  }

  PipelineShare share_of(Rank rank) const {
    PipelineShare share{.rank = rank,
                        .lanes = arrangement_.micro_batches,
                        .summed = std::vector<double>(stages_.size()),
                        .tied_rank = rank_of_stage_.front(),
                        .message = result_.message_seconds};
    if (workload_.any_order) share.lanes = 1;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (rank_of_stage_[stage] == rank) share.summed[stage] = stages_[stage].parameters * kFloatBytes;
    }
    if (rank_of_stage_.back() == rank) {
      share.tied = tied_parameters() * kFloatBytes;
      share.summed.back() -= share.tied;
    }
    return share;
  }

  /// What a rank holds all the time, and what ZeRO and messages between stages take in between.
  RankMemory state_of(Rank rank) const {
    double parameters = 0;
    double copied = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (rank_of_stage_[stage] != rank) continue;
      parameters += stages_[stage].parameters;
      copied += stages_[stage].copied;
    }
    const bool alone = mesh_.pipe == 1;  // a pipeline has partial sums only while they wait
    const GradientBuckets buckets = gradient_buckets(tensors_of(rank));
    const bool leave_at_once = arrangement_.zero >= 2 && shards() > 1 && arrangement_.micro_batches == 1;
    const StateOptions options{
        .precision = workload_.precision,
        .optimizer_values = workload_.optimizer_values,
        .zero = arrangement_.zero,
        .shards = shards(),
        .gradient_buffers = alone ? summation_buffers(arrangement_.micro_batches, workload_.any_order) : 1,
        .whole_gradients = !leave_at_once || buckets.all_at_once()};
    RankMemory memory{.state = state_bytes(parameters, options)};
    memory.state.weights += copied * bytes_each();
    if (arrangement_.offload) memory.state.optimizer = 0;
    if (!options.whole_gradients) memory.working += buckets.places * kFloatBytes / mesh_.tensor;
    if (arrangement_.zero >= 3) memory.working += gathered_parameters() * bytes_each();
    memory.working += posted_messages(rank) * message_bytes();
    return memory;
  }

  /// The tensors of a rank as ZeRO sums their gradients together: all, or in stage 3 layer by layer.
  std::vector<std::vector<std::uint64_t>> tensors_of(Rank rank) const {
    std::vector<std::vector<std::uint64_t>> groups(1);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (rank_of_stage_[stage] != rank) continue;
      for (std::size_t i = 0; i < stages_[stage].memory.layers.size(); ++i) {
        const std::vector<std::uint64_t>& tensors = workload_.model.layers[result_.stages[stage] + i].tensors;
        if (arrangement_.zero >= 3) groups.emplace_back();
        groups.back().insert(groups.back().end(), tensors.begin(), tensors.end());
      }
    }
    std::vector<std::uint64_t>& first = arrangement_.zero >= 3 ? groups[1] : groups[0];
    if (arrangement_.zero >= 3 && workload_.model.tied_parameters > 0 && !first.empty()) {
      groups[0] = {first.front()};  // what two layers use is of neither
      first.erase(first.begin());
    }
    return groups;
  }

  /// ZeRO 3: a layer's whole weights, and its neighbour's, which are on their way.
  double gathered_parameters() const {
    const std::vector<LayerCost>& layers = workload_.model.layers;
    const auto used = [&](std::size_t i) {
      return parameters_of(layers[i]) + (i > 0 && i + 1 == layers.size() ? tied_parameters() : 0);
    };
    double most = used(0);
    for (std::size_t i = 1; i < layers.size(); ++i) most = std::max(most, used(i - 1) + used(i));
    return most;
  }

  /// Messages for which a rank has memory before it needs them: two from each neighbour (pipeline/links.cc).
  double posted_messages(Rank rank) const {
    constexpr double kAhead = 2;
    std::vector<Rank> neighbours;
    for (std::size_t stage = 1; stage < stages_.size(); ++stage) {
      const Rank before = rank_of_stage_[stage - 1];
      const Rank after = rank_of_stage_[stage];
      if (before != after && (before == rank || after == rank)) neighbours.push_back(before == rank ? after : before);
    }
    std::ranges::sort(neighbours);
    neighbours.erase(std::ranges::unique(neighbours).begin(), neighbours.end());
    return std::min<double>(kAhead, arrangement_.micro_batches) * static_cast<double>(neighbours.size());
  }

  /// What a rank's parameters take the optimizer, at the end of a step.
  double update_seconds(double parameters) const {
    if (!measured() || arrangement_.offload) return 0;
    return parameters / (arrangement_.zero > 0 ? shards() : 1) * hardware_.measured->update_seconds;
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
      if (arrangement_.zero >= 1) exposed = std::max(0.0, scatter - backward);
      if (arrangement_.zero == 1 || arrangement_.zero == 2) exposed += gather;
      if (arrangement_.offload) {  // gradients go to the servers while backward runs, new weights come back after it
        const Link& to_servers = hardware_.hosts > 1 ? hardware_.links.network : hardware_.links.host;
        const double push = to_servers.seconds(parameters * 4);
        communicated = 2 * push;
        exposed = std::max(0.0, push - backward) + push;
      }
      if (arrangement_.zero == 3) communicated = scatter + 2 * gather * arrangement_.micro_batches;
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
  const GroupSpan data_;
  const GroupSpan tensor_;
  const GroupSpan pipe_;
  std::vector<StageCost> stages_;
  std::vector<Rank> rank_of_stage_;
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
  if (arrangement.shards > 0) text += fmt::format(" in groups of {}", arrangement.shards);
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
  if (arrangement.shards > 0 && mesh.data % arrangement.shards != 0) {
    return fmt::format("groups of {} do not divide data={}: the nearest is {}", arrangement.shards, mesh.data,
                       nearest_divisor(mesh.data, arrangement.shards));
  }
  return std::nullopt;
}

Prediction predict(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement,
                   const PlacedMesh& placed) {
  if (const auto reason = why_impossible(workload, hardware, arrangement)) throw InvalidArgument(*reason);
  return Predictor(workload, hardware, arrangement, placed).run();
}

Prediction predict(const Workload& workload, const Hardware& hardware, const Arrangement& arrangement) {
  if (const auto reason = why_impossible(workload, hardware, arrangement)) throw InvalidArgument(*reason);
  return predict(workload, hardware, arrangement, place_ranks(arrangement.mesh, hardware.hosts));
}

}  // namespace trireme::plan
