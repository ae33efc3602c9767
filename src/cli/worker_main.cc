// The workers of `trireme train`: started by it, with the flags as JSON.
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>

#include "trireme/trainer.h"

#include "base/error.h"
#include "base/log.h"
#include "cli/train_flags.h"
#include "job/termination.h"
#include "net/address.h"
#include "tensor/device.h"

namespace trireme::cli {
namespace {

TrainOptions to_options(const TrainFlags& flags, Rank rank) {
  TrainOptions options{
      .batch = flags.batch,
      .epochs = flags.epochs,
      .steps = flags.steps,
      .lanes = flags.lanes,
      .accumulate = flags.accumulate,
      .seed = flags.seed,
      .optimizer = {.rule = optim::parse_rule(flags.optimizer),
                    .momentum = flags.momentum,
                    .l2 = flags.l2,
                    .clip_value = flags.clip_value},
      .lr = flags.lr,
      .schedule = flags.schedule,
      .warmup = flags.warmup,
      .clip_norm = flags.clip_norm,
      .strategy = cluster::parse_strategy(flags.strategy),
      .buffers = cluster::parse_buffers(flags.buffers),
      .codec = codec::parse_spec(flags.codec),
      .device = pick_device(flags.device, rank),
      .threads = flags.threads,
      .log_every = flags.log_every,
      .checkpoint = {.every = parse_checkpoint_every(flags.checkpoint_every), .keep_last = flags.keep_checkpoints},
      .timeline = flags.timeline};
  if (!flags.consistency.empty()) options.consistency = ps::parse_consistency(flags.consistency);
  options.consistency.backup_workers = flags.backup_workers;
  options.consistency.damp_stale = flags.damp_stale;
  if (!flags.checkpoint_rate.empty()) {
    options.checkpoint.bytes_per_second = net::parse_bit_rate(flags.checkpoint_rate) / 8;
  }
  options.balance = flags.balance;
  options.least_step = std::chrono::milliseconds(flags.step_ms);
  options.trace_steps = flags.trace_steps;
  if (const Slow slow = parse_slow(flags.slow); slow.worker == rank) options.slowdown = slow.factor;
  if (flags.early_stop > 0) options.callbacks.push_back(stop_early(flags.early_stop));
  if (flags.target_accuracy > 0) options.callbacks.push_back(stop_at_accuracy(flags.target_accuracy));
  if (flags.time_limit > 0) {
    options.callbacks.push_back(limit_time(std::chrono::milliseconds(std::lround(flags.time_limit * 1000))));
  }
  return options;
}

void work(const TrainFlags& flags) {
  leave_on_sigterm();
  const data::Split data = load_data(flags);
  const auto job = Job::join();
  set_up_logging({.role = fmt::format("worker {}", job->rank())});
  seed_torch(flags.seed);
  const Model model = make_model(flags.model, data.train->sample_shape(), data.train->classes());
  Trainer(*job, model, to_options(flags, job->rank())).fit(data.train, data.test);
}

}  // namespace
}  // namespace trireme::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    if (argc != 2) trireme::fail<trireme::InvalidArgument>("this program is started by 'trireme train'");
    trireme::set_up_logging({.role = "worker"});
    trireme::cli::work(nlohmann::json::parse(argv[1]).get<trireme::cli::TrainFlags>());
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "trireme-worker: {}\n", problem.what());
    return 1;
  }
}
