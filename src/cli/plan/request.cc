#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/numbers.h"
#include "cli/plan/options.h"
#include "cli/plan/quantities.h"

namespace trireme::cli {
namespace {

constexpr std::uint32_t kSamplesPerWorker = 8;  // of a batch that is not given

template <class Value>
const Value& required(const char* flag, const std::optional<Value>& value) {
  if (!value) fail<InvalidArgument>("'trireme plan --model' needs {}; see trireme plan --help", flag);
  return *value;
}

std::uint32_t optimizer_values(const std::string& optimizer) {
  return optimizer == "sgd" ? 0 : optimizer == "momentum" ? 1 : 2;
}

plan::Workload workload_of(const PlanFlags& flags) {
  plan::ModelInput input{.length = flags.length.value_or(0),
                         .shape = {},
                         .classes = flags.classes.value_or(0),
                         .fused_attention = flags.attention == "fused"};
  if (!flags.image.empty()) input.shape = parse_shape("--image", flags.image);
  return {.model = plan::model_cost(flags.model, input),
          .batch = flags.batch.value_or(std::uint64_t{kSamplesPerWorker} * required("--workers", flags.workers)),
          .precision = plan::parse_precision(flags.precision),
          .optimizer_values = optimizer_values(flags.optimizer),
          .any_order = flags.reduction == "fast"};
}

plan::Hardware hardware_of(const PlanFlags& flags) {
  const std::uint32_t workers = required("--workers", flags.workers);
  const std::uint32_t hosts = flags.hosts.value_or(workers);
  if (hosts > workers) {
    fail<InvalidArgument>("--hosts {}: {} workers are on at most {} hosts", hosts, workers, workers);
  }
  if (flags.memory.empty()) {
    fail<InvalidArgument>("'trireme plan --model' needs --memory, of each worker: --memory 24gb");
  }
  return {.workers = workers,
          .hosts = hosts,
          .memory = parse_bytes("--memory", flags.memory),
          .flops = parse_flops("--flops", flags.flops),
          .links = {
              .host = {parse_bandwidth("--host-bandwidth", flags.host_bandwidth),
                       parse_seconds("--host-latency", flags.host_latency)},
              .network = {parse_bandwidth("--bandwidth", flags.bandwidth), parse_seconds("--latency", flags.latency)}}};
}

}  // namespace

plan::PlanRequest plan_request(const PlanFlags& flags) {
  plan::PlanRequest request{.workload = workload_of(flags), .hardware = hardware_of(flags)};
  if (!flags.mesh.empty()) request.mesh = plan::parse_mesh(flags.mesh);
  request.zero = flags.zero;
  if (!flags.schedule.empty()) request.schedule = plan::parse_schedule_kind(flags.schedule);
  if (flags.chunks && request.schedule != plan::ScheduleKind::kInterleaved) {
    fail<InvalidArgument>("--chunks is for --schedule interleaved");
  }
  request.chunks = flags.chunks;
  request.micro_batches = flags.micro_batches;
  if (!flags.recompute.empty()) request.recompute = flags.recompute == "on";
  return request;
}

std::optional<GoodputAnswer> goodput_of(const PlanFlags& flags, const plan::PlanRequest& request,
                                        const plan::Candidate& candidate) {
  if (!flags.mtbf && flags.straggler.empty()) return std::nullopt;
  double share = 0;
  double factor = 1;
  if (!flags.straggler.empty()) {
    const std::string allowed = "the share of slow workers, below 1, and how many times as long they take: 0.02:1.5";
    const std::vector<double> numbers = parse_list("--straggler", flags.straggler, 2, allowed);
    share = numbers[0];
    factor = numbers[1];
    if (share >= 1 || factor < 1 || factor > 1000) refuse_number("--straggler", flags.straggler, allowed);
  }
  constexpr double kHour = 3600;
  const auto& [arrangement, prediction, fits] = candidate;
  GoodputAnswer answer{.model = {.workers = request.hardware.workers,
                                 .step = prediction.step_seconds,
                                 .slow_step = plan::slow_step_seconds(arrangement, prediction, factor),
                                 .straggler_share = share,
                                 .worker_mtbf = flags.mtbf.value_or(0) * kHour,
                                 .checkpoint = parse_seconds("--checkpoint-time", flags.checkpoint_time),
                                 .restart = parse_seconds("--restart-time", flags.restart_time),
                                 .seed = flags.seed}};
  answer.from_checkpoint = plan::simulate(answer.model);
  if (arrangement.mesh.data > 1 && arrangement.zero == 0) {
    plan::FailureModel copied = answer.model;
    copied.from_replica = true;
    answer.from_replica = plan::simulate(copied);
  }
  return answer;
}

void write_text(const std::string& path, const std::string& text) { write_file_atomically(path, as_bytes(text)); }

}  // namespace trireme::cli
