#include "cli/start/mesh_plan.h"

#include <algorithm>
#include <numeric>

#include "trireme/optimizer.h"

#include "base/error.h"
#include "base/threads.h"
#include "cli/flags/declare_flag.h"
#include "cli/flags/known_names.h"
#include "cli/plan/calibration_file.h"
#include "cli/plan/quantities.h"
#include "cluster/host_load.h"
#include "cluster/strategy_choice.h"
#include "data/task_rules.h"
#include "optim/update_config.h"
#include "plan/advice.h"
#include "plan/schedule/own_schedule.h"

namespace trireme::cli {
namespace {

using Kind = cluster::StrategyChoice::Kind;

constexpr double kUnmeasuredFlops = 30e9;           // of a core: only ratios matter
constexpr plan::Link kUnmeasuredLink{4e9, 100e-6};  // between processes of a host

std::uint64_t round_up(std::uint64_t number, std::uint64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

std::uint32_t optimizer_values(const TrainFlags& flags) {
  return static_cast<std::uint32_t>(optim::state_floats(
      {.rule = optim::parse_rule(flags.optimizer), .ema = flags.ema, .prunes = !flags.prune.empty()}));
}

/// `parts`: of the batch; a last part that is smaller takes no longer than the others.
plan::Workload workload_of(const TrainFlags& flags, const plan::ModelCost& model, std::uint64_t parts) {
  return {.model = model,
          .batch = round_up(flags.batch, parts),
          .precision = flags.precision == "fp32" ? plan::Precision::kFp32 : plan::Precision::kBf16,
          .optimizer_values = optimizer_values(flags)};
}

double memory_of(const TrainFlags& flags) {
  if (!flags.memory.empty()) return parse_bytes("--memory", flags.memory);
  return static_cast<double>(cluster::host_load().free) / flags.workers;
}

plan::Hardware hardware_of(const TrainFlags& flags, const plan::Mesh& mesh) {
  const auto measured = find_calibration("");
  return {.workers = static_cast<std::uint32_t>(mesh.ranks()),
          .hosts = 1,
          .memory = memory_of(flags),
          .flops = measured ? measured->flops : kUnmeasuredFlops * std::max(1, flags.threads),
          .links = {.host = measured ? measured->link : kUnmeasuredLink, .network = {}},
          .cores = available_cores(),
          .measured = measured};
}

/// Of the rank that has the most.
std::uint32_t stages_per_rank(const plan::Schedule& schedule) {
  std::vector<std::uint32_t> counts(schedule.ranks.size(), 0);
  for (const Rank rank : schedule.rank_of_stage) ++counts[rank];
  return *std::ranges::max_element(counts);
}

/// A schedule of one's own is for one number of workers and of micro-batches.
void check_own_schedule(const TrainFlags& flags, const plan::Arrangement& wanted) {
  const plan::Schedule own = plan::own_schedule(flags.pipeline);
  const std::uint64_t lanes = flags.lanes == 0 ? usual_lanes(flags) : flags.lanes;
  const std::uint64_t micro_batches = std::uint64_t{own.micro_batches} * wanted.mesh.data;
  if (own.ranks.size() != wanted.mesh.pipe || lanes != micro_batches) {
    fail<InvalidArgument>(
        "--pipeline: that schedule is for pipe={} and {} micro-batches, so with data={} for --lanes {}; this is "
        "pipe={} with {} lanes: change one of them, or give --pipeline 1f1b",
        own.ranks.size(), own.micro_batches, wanted.mesh.data, micro_batches, wanted.mesh.pipe, lanes);
  }
  if (flags.memory.empty()) return;
  fail<InvalidArgument>("--memory {}: what a schedule of one's own holds is not known before; leave one of both out",
                        flags.memory);
}

/// The layout that the flags ask for, as the planner describes it.
plan::Arrangement arrangement_of(const TrainFlags& flags) {
  const cluster::MeshChoice choice = mesh_of(flags);
  const cluster::StrategyChoice strategy = cluster::parse_strategy(flags.strategy);
  const std::uint32_t data = cluster::data_workers(choice, flags.workers);
  const std::uint32_t lanes = flags.lanes == 0 ? usual_lanes(flags) : flags.lanes;
  const bool own = plan::is_own_schedule(choice.pipeline);
  plan::Arrangement arrangement{
      .mesh = {data, choice.pipe, choice.tensor},
      .zero = strategy.kind == Kind::kZero && data > 1 ? strategy.zero.stage : 0,
      .schedule = own ? plan::ScheduleKind::k1F1B : plan::parse_schedule_kind(choice.pipeline),
      .micro_batches = (lanes + data - 1) / data,
      .recompute = choice.recompute,
      .offload = strategy.uses_servers()};
  const std::uint32_t shards = strategy.zero.shards;
  if (arrangement.zero > 0 && shards > 0 && data % shards == 0) arrangement.shards = shards;  // else in larger groups
  arrangement.chunks = choice.chunks > 0 ? choice.chunks : plan::usual_chunks(arrangement.schedule);
  if (own) arrangement.chunks = stages_per_rank(plan::own_schedule(choice.pipeline));
  if (choice.pipe == 1) arrangement.chunks = 1;
  return arrangement;
}

/// How many layers each stage has must be told for all stages and all layers.
void check_stages(const TrainFlags& flags, const plan::ModelCost& model, std::uint32_t stages) {
  const std::vector<std::string> sizes = parse_list(flags.stages);
  std::uint64_t sum = 0;
  for (const std::string& size : sizes) {
    const bool number =
        !size.empty() && size.size() < 7 && std::ranges::all_of(size, [](char c) { return c >= '0' && c <= '9'; });
    if (!number || size == "0") {
      fail<InvalidArgument>("--stages {}: how many layers each stage has, from 1 on: 3,5,4", flags.stages);
    }
    sum += std::stoul(size);
  }
  if (sizes.size() == stages && sum == model.layers.size()) return;
  fail<InvalidArgument>(
      "--stages {}: {} stages of {} layers together, and {} has {} layers for {} stages; leave the flag out, and they "
      "are cut by their cost",
      flags.stages, sizes.size(), sum, model.name, model.layers.size(), stages);
}

/// For --strategy.
std::string strategy_text(const plan::Arrangement& arrangement) {
  cluster::StrategyChoice choice{.kind = Kind::kAllReduce};
  if (arrangement.zero > 0) {
    choice.kind = Kind::kZero;
    choice.zero = {.stage = arrangement.zero, .shards = arrangement.shards};
  }
  return cluster::to_string(choice);
}

/// For --pipeline.
std::string pipeline_text(const plan::Arrangement& arrangement) {
  const std::string name(plan::name_of(arrangement.schedule));
  const bool any_chunks = arrangement.schedule == plan::ScheduleKind::kInterleaved;
  return any_chunks ? fmt::format("{}:{}", name, arrangement.chunks) : name;
}

/// The flags that train so.
std::string flags_text(const plan::Arrangement& arrangement) {
  const bool divided = arrangement.mesh.pipe > 1 || arrangement.mesh.tensor > 1;
  std::string text =
      divided ? "--mesh " + plan::to_text(arrangement.mesh) + " " : fmt::format("--workers {} ", arrangement.mesh.data);
  if (arrangement.offload) return text + "--offload";
  text += "--strategy " + strategy_text(arrangement);
  if (arrangement.mesh.pipe > 1) text += " --pipeline " + pipeline_text(arrangement);
  if (arrangement.recompute) text += " --recompute";
  return text + fmt::format(" --lanes {}", std::uint64_t{arrangement.mesh.data} * arrangement.micro_batches);
}

/// What would help where nothing fits.
std::string advice_of(const plan::Plan& plan) {
  std::string text = plan.reasons.front();
  for (const plan::Knob& knob : plan.knobs) {
    if (knob.change.starts_with("--reduction") || knob.change.starts_with("--recompute")) continue;  // not ours
    text += fmt::format("; {}: {}", knob.change, knob.effect);
  }
  return text;
}

/// Matrices are divided only where nothing else fits: results depend on it.
plan::Plan plan_for(const TrainFlags& flags, const plan::ModelCost& model, plan::PlanRequest request) {
  request.workload = workload_of(flags, model, flags.workers);
  request.hardware = hardware_of(flags, {.data = flags.workers});
  request.tensor = 1;
  plan::Plan plan = plan::make_plan(request);
  if (plan.fits()) return plan;
  request.tensor.reset();
  return plan::make_plan(request);
}

void check_memory(const TrainFlags& flags, const plan::ModelCost& model, const plan::Arrangement& wanted) {
  const double memory = parse_bytes("--memory", flags.memory);
  const plan::Workload workload = workload_of(flags, model, std::uint64_t{wanted.mesh.data} * wanted.micro_batches);
  const plan::Hardware hardware = hardware_of(flags, wanted.mesh);
  if (plan::why_impossible(workload, hardware, wanted)) return;  // nothing is known of it
  const double needed = plan::predict(workload, hardware, wanted).memory.total();
  if (needed <= memory) return;
  const std::string problem =
      fmt::format("--memory {}: {} needs {} on each worker like this, {} too much", flags.memory, model.name,
                  plan::gigabytes(needed), plan::gigabytes(needed - memory));
  for (std::uint32_t times = 1; times <= 16; times *= 2) {
    TrainFlags more = flags;
    more.workers *= times;
    const plan::Plan plan = plan_for(more, model, {});
    if (!plan.fits()) continue;
    fail<InvalidArgument>("{}; this fits, with {}: {} (or --workers {} --mesh auto)", problem,
                          plan::gigabytes(plan.best().prediction.memory.total()), flags_text(plan.best().arrangement),
                          more.workers);
  }
  fail<InvalidArgument>("{}, and 16 times as many workers do not help; see trireme plan --model {} --memory {}",
                        problem, model.name, flags.memory);
}

}  // namespace

std::optional<plan::ModelCost> planned_model(const TrainFlags& flags, const data::Schema& samples) {
  const std::string name = flags.model.substr(0, flags.model.find(':'));
  const bool own = std::ranges::count(own_names().models, name) > 0;
  const auto inputs = samples.with(data::Role::kInput);
  if (own || is_script(flags.model) || !plan::is_planned(flags.model) || inputs.size() != 1) return std::nullopt;
  const data::Field& input = samples[inputs.front()];
  const std::string task = flags.task.empty() ? data::fitting_task(samples) : flags.task;
  if (std::ranges::count(data::ready_tasks(), task) == 0 || input.varies()) return std::nullopt;
  const bool tokens = input.shape.size() == 1 && !input.classes.empty();
  const auto measured = find_calibration("");
  plan::ModelInput given{.classes = static_cast<std::uint64_t>(data::outputs_for(task, samples)),
                         .fused_attention = measured != nullptr && measured->fused_attention};
  if (tokens) {
    given.length = static_cast<std::uint64_t>(input.shape.front() - 1);
  } else {
    for (const std::int64_t size : input.shape) given.shape.push_back(static_cast<std::uint64_t>(size));
  }
  return plan::model_cost(flags.model, given);
}

void check_division(const TrainFlags& flags, const data::Schema& samples) {
  const auto model = planned_model(flags, samples);
  const cluster::MeshChoice choice = mesh_of(flags);
  if (plan::is_own_schedule(flags.pipeline)) check_own_schedule(flags, arrangement_of(flags));
  if (!model) {
    if (flags.memory.empty()) return;
    fail<InvalidArgument>("--memory {}: what {} needs is not known before it runs; leave the flag out", flags.memory,
                          flags.model);
  }
  const plan::Arrangement wanted = arrangement_of(flags);
  const std::uint32_t lanes = std::max(choice.tensor_lanes, choice.tensor);
  const bool by_layers = wanted.zero == 3 || choice.divides_model();
  if (by_layers && flags.model.starts_with("lstm")) {
    fail<InvalidArgument>(
        "--{} {}: lstm is not made of layers, so its parameters cannot be divided: gpt, resnet, vit-tiny, mlp and "
        "lenet are; zero:2 works with every network",
        wanted.zero == 3 ? "strategy" : "mesh", wanted.zero == 3 ? flags.strategy : flags.mesh);
  }
  if (const auto reason = plan::why_indivisible(*model, wanted.mesh, wanted.chunks, lanes)) {
    fail<InvalidArgument>("--mesh {}{}: {}", flags.mesh, choice.pipe > 1 ? " --pipeline " + flags.pipeline : "",
                          *reason);
  }
  if (!flags.stages.empty()) check_stages(flags, *model, wanted.mesh.pipe * wanted.chunks);
  if (!flags.memory.empty()) check_memory(flags, *model, wanted);
}

MeshDecision decide_mesh(const TrainFlags& flags, const plan::ModelCost& model, const plan::PlanRequest& given) {
  const plan::Plan plan = plan_for(flags, model, given);
  if (!plan.fits()) {
    fail<InvalidArgument>("--mesh auto: {} does not fit on {} workers: {}", model.name, flags.workers, advice_of(plan));
  }
  const plan::Candidate& best = plan.best();
  const bool divided = best.arrangement.mesh.pipe > 1 || best.arrangement.mesh.tensor > 1 || best.arrangement.zero > 0;
  std::string reason =
      fmt::format("{} of {} per worker, {} per step", plan::gigabytes(best.prediction.memory.total()),
                  plan::gigabytes(memory_of(flags)), plan::duration_text(best.prediction.step_seconds));
  if (find_calibration("") == nullptr) reason += " (unmeasured: see trireme plan --calibrate)";
  if (!divided) reason = "plain data parallelism is the fastest that fits: " + reason;
  if (divided && plan.reasons.size() > 1) reason += "; " + plan.reasons[1];
  return {best.arrangement, reason};
}

void check_local_plan(const TrainFlags& flags, bool other_hosts) {
  if (flags.mesh != kAutoMesh || !other_hosts) return;
  fail<InvalidArgument>(
      "--mesh auto plans for this host alone; for several, ask once and give what it says: trireme plan --model {} "
      "--workers ... --hosts ... --memory ...",
      flags.model);
}

std::string settle_mesh(CLI::App& command, TrainFlags& flags) {
  if (flags.mesh != kAutoMesh) return "";
  const auto is_given = [&](const char* name) { return command.get_option(name)->count() > 0; };
  settle_workers(flags);
  check_each(flags);
  if (flags.device != "cpu") fail<InvalidArgument>("--mesh auto --device {}: models are divided on CPUs", flags.device);
  plan::PlanRequest given;
  if (is_given("--strategy")) {
    const cluster::StrategyChoice strategy = cluster::parse_strategy(flags.strategy);
    if (strategy.kind != Kind::kAllReduce && strategy.kind != Kind::kZero) {
      fail<InvalidArgument>(
          "--mesh auto --strategy {}: a model is divided with allreduce or zero; leave one of both out",
          flags.strategy);
    }
    given.zero = strategy.kind == Kind::kZero ? strategy.zero.stage : 0;
    if (strategy.kind == Kind::kZero) given.shards = strategy.zero.shards;
  }
  if (is_given("--lanes")) given.lanes = flags.lanes;
  if (is_given("--recompute") && flags.recompute) given.recompute = true;
  if (is_given("--pipeline")) {
    if (plan::is_own_schedule(flags.pipeline)) {
      fail<InvalidArgument>("--mesh auto: a schedule of one's own is for one mesh; give that: --mesh pipe=...");
    }
    const cluster::MeshChoice choice = mesh_of({.pipeline = flags.pipeline});
    given.schedule = plan::parse_schedule_kind(choice.pipeline);
    if (choice.chunks > 0) given.chunks = choice.chunks;
  }
  const auto model = planned_model(flags, load_data(flags).split.train->schema());
  MeshDecision decision{.arrangement = {.mesh = {.data = flags.workers}},
                        .reason = "plain data parallelism: the planner does not know this model"};
  if (model) decision = decide_mesh(flags, *model, given);
  const plan::Arrangement& chosen = decision.arrangement;
  command.get_option("--mesh")->clear();
  flags.mesh.clear();
  if (chosen.mesh.pipe > 1 || chosen.mesh.tensor > 1) give(command, "--mesh", plan::to_text(chosen.mesh));
  give(command, "--strategy", strategy_text(chosen));
  if (chosen.mesh.pipe > 1) give(command, "--pipeline", pipeline_text(chosen));
  if (chosen.recompute) give(command, "--recompute", "true");
  give(command, "--lanes", std::to_string(std::uint64_t{chosen.mesh.data} * chosen.micro_batches));
  return fmt::format("mesh auto: {}: {}", flags_text(chosen), decision.reason);
}

}  // namespace trireme::cli
