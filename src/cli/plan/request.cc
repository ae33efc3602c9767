#include <algorithm>
#include <filesystem>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/flags/numbers.h"
#include "cli/plan/calibrate.h"
#include "cli/plan/calibration_file.h"
#include "cli/plan/options.h"
#include "cli/plan/quantities.h"
#include "plan/advice.h"

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

/// This machine, as it was measured; null if the flags describe another: those that say so are kept all the same.
std::shared_ptr<const plan::Calibration> this_machine(const PlanFlags& flags) {
  if (flags.calibrate) return nullptr;
  if (!flags.calibration.empty() || flags.memory.empty()) return find_calibration(flags.calibration);
  return flags.hosts == 1u ? find_calibration("") : nullptr;
}

bool fused_attention(const PlanFlags& flags) {
  if (!flags.attention.empty()) return flags.attention == "fused";
  const auto measured = this_machine(flags);
  return measured == nullptr || measured->fused_attention;
}

plan::ModelCost model_of(const PlanFlags& flags) {
  plan::ModelInput input{.length = flags.length.value_or(0),
                         .shape = {},
                         .classes = flags.classes.value_or(0),
                         .fused_attention = fused_attention(flags)};
  if (!flags.image.empty()) input.shape = parse_shape("--image", flags.image);
  return plan::model_cost(flags.model, input);
}

plan::Workload workload_of(const PlanFlags& flags) {
  return {.model = model_of(flags),
          .batch = flags.batch.value_or(std::uint64_t{kSamplesPerWorker} * required("--workers", flags.workers)),
          .precision = plan::parse_precision(flags.precision),
          .optimizer_values = optimizer_values(flags.optimizer),
          .any_order = flags.reduction == "fast"};
}

void use(const plan::Calibration& measured, const PlanFlags& flags, plan::Hardware& hardware) {
  hardware.cores = measured.cores;
  if (flags.memory.empty()) hardware.memory = measured.memory * hardware.hosts / hardware.workers;
  if (flags.flops.empty()) hardware.flops = measured.flops;
  if (flags.host_bandwidth.empty()) hardware.links.host.bytes_per_second = measured.link.bytes_per_second;
  if (flags.host_latency.empty()) hardware.links.host.latency = measured.link.latency;
}

plan::Hardware hardware_of(const PlanFlags& flags) {
  const std::uint32_t workers = required("--workers", flags.workers);
  const auto measured = this_machine(flags);
  const std::uint32_t hosts = flags.hosts.value_or(measured ? 1 : workers);
  if (hosts > workers) {
    fail<InvalidArgument>("--hosts {}: {} workers are on at most {} hosts", hosts, workers, workers);
  }
  if (flags.memory.empty() && !measured) {
    fail<InvalidArgument>(
        "'trireme plan --model' needs --memory, of each worker: --memory 24gb; or measure this machine once, to plan "
        "for it: trireme plan --calibrate --model {}",
        flags.model);
  }
  const auto given = [](const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; };
  plan::Hardware hardware{
      .workers = workers,
      .hosts = hosts,
      .memory = flags.memory.empty() ? 0 : parse_bytes("--memory", flags.memory),
      .flops = parse_flops("--flops", given(flags.flops, "100tflops")),
      .links = {.host = {parse_bandwidth("--host-bandwidth", given(flags.host_bandwidth, "256gbit")),
                         parse_seconds("--host-latency", given(flags.host_latency, "5us"))},
                .network = {parse_bandwidth("--bandwidth", flags.bandwidth),
                            parse_seconds("--latency", flags.latency)}},
      .measured = measured};
  if (measured) use(*measured, flags, hardware);
  return hardware;
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
  request.offload = flags.offload;
  if (!flags.recompute.empty()) request.recompute = flags.recompute == "on";
  return request;
}

PlanAnswer answer_calibration(const PlanFlags& flags) {
  const std::string file = flags.calibration.empty() ? usual_calibration_file().string() : flags.calibration;
  if (file.empty())
    fail<InvalidArgument>("--calibrate: there is no HOME to keep the result in; give --calibration FILE");
  const plan::Calibration measured =
      calibrate({.model = model_of(flags), .precision = plan::parse_precision(flags.precision)});
  if (const auto folder = std::filesystem::path(file).parent_path(); !folder.empty()) {
    std::filesystem::create_directories(folder);
  }
  write_text(file, plan::to_text(measured));
  if (flags.workers) {
    PlanFlags planned = flags;
    planned.calibrate = false;
    return answer_plan(planned);
  }
  if (flags.json) return {plan::to_text(measured), 0};
  const plan::LayerTiming slowest = *std::ranges::max_element(
      measured.layers.back(), {}, [](const plan::LayerTiming& layer) { return layer.forward + layer.backward; });
  return {fmt::format("{} ({}): {:.3g} Gflop/s in each of {} process{}; its slowest layer takes {} forward and {} back "
                      "for {:g} samples\n"
                      "sums between two processes: {:.3g} GB/s, {}; Adam: {:.3g} M parameters per second; memory: {} "
                      "free\n"
                      "kept in {}: trireme plan uses it where no --memory is given, trireme train with --mesh auto\n",
                      measured.model, measured.sample, measured.flops / 1e9, measured.cores / measured.threads,
                      measured.cores == measured.threads ? "" : "es", plan::duration_text(slowest.forward),
                      plan::duration_text(slowest.backward), measured.samples.back(),
                      measured.link.bytes_per_second / 1e9, plan::duration_text(measured.link.latency),
                      1e-6 / measured.update_seconds, plan::gigabytes(measured.memory), file),
          0};
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
