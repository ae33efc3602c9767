#pragma once

// The flags of a training, each described once. From here come the command line, with its help, manual page and
// completions; config.toml; what workers are handed; the TrainOptions that a worker makes of it; and the JobSpec that
// the launcher makes of it. A new flag is a member of TrainFlags and an entry here.

#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/codec.h"
#include "trireme/loss_scale.h"
#include "trireme/metrics.h"
#include "trireme/optimizer.h"
#include "trireme/sampler.h"
#include "trireme/strategy.h"

#include "base/error.h"
#include "base/flag.h"
#include "cli/flags/known_names.h"
#include "cli/flags/log_level.h"
#include "cli/flags/mesh_flag_table.h"
#include "cli/flags/train_flag.h"
#include "cli/flags/train_flags.h"
#include "cluster/member_metrics.h"
#include "launch/job/job_runner.h"
#include "net/address.h"

namespace trireme::cli {

inline void check_at_least_one(const std::string& name, std::uint64_t value, const char* why) {
  if (value == 0) fail<InvalidArgument>("{} 0: {}", name, why);
}

/// Throws what `parse` throws, after the flag's name.
template <class Parse>
void check_parsed(const std::string& name, const std::string& text, Parse parse) {
  try {
    parse(text);
  } catch (const InvalidArgument& problem) {
    fail<InvalidArgument>("{} {}", name, problem.what());
  }
}

inline void check_goal(const std::string& name, const std::string& text) {
  if (text.empty()) return;
  check_parsed(name, text, Goal::parse);
}

inline void check_bit_rate(const std::string& /*name*/, const std::string& text) {
  if (!text.empty()) net::parse_bit_rate(text);
}

inline auto flags_of_what_to_train() {
  return flag_group(
      "What to train",
      flag("--model", &TrainFlags::model,
           "network: mlp, lenet, resnet20, resnet18, resnet50, vit-tiny, gpt-tiny, gpt-10m, gpt2 to gpt2-xl, lstm, "
           "wide-deep, with settings such as gpt-tiny:layers=4,dropout=0.1; or a .pt file of TorchScript",
           {.show_default = true, .for_workers = true, .of_checkpoints = true, .check = check_model}),
      flag("--task", &TrainFlags::task,
           "what training means: classification, multi-label, regression, language-model or autoencoder; what fits the "
           "samples unless given",
           {.for_workers = true, .of_checkpoints = true, .check = check_task}),
      flag("--init", &TrainFlags::init,
           "start from this model: a .safetensors file (GPT-2's as published, too), a checkpoint, or a run's folder "
           "(its "
           "newest checkpoint)",
           {.of_checkpoints = true}, [](auto& worker, const TrainFlags& flags) { worker.options.init = flags.init; }),
      flag("--init-prefix", &TrainFlags::init_prefix,
           "of --init, take only the tensors whose names begin with this, such as backbone., without it; the rest of "
           "the model is not changed",
           {.of_checkpoints = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.init_prefix = flags.init_prefix; }),
      flag("--data", &TrainFlags::data,
           "fashion-mnist, synthetic; a folder of IDX files, CIFAR's, or images by class; or files by path or pattern: "
           ".csv .tsv .libsvm .npy .npz .bin (tokens) .txt .tfrecord .tar (WebDataset), plain, .gz or .zst",
           {.show_default = true, .for_workers = true, .of_checkpoints = true}),
      flag("--test-data", &TrainFlags::test_data,
           "what to test on; unless given, the part that the data has for it, or else every tenth sample (of text and "
           "tokens: the last tenth)",
           {.for_workers = true}),
      flag("--target", &TrainFlags::target,
           "what the model should say: columns or fields, by name (a table's last column unless given), or a condition "
           "such as 'delay>15'; a,b: several",
           {.for_workers = true, .of_checkpoints = true}),
      flag("--ignore", &TrainFlags::ignore, "columns or fields to leave out: a,b",
           {.for_workers = true, .of_checkpoints = true}),
      flag("--types", &TrainFlags::types,
           "kinds of a table's columns, where they are not as they look: zip=category,day=date,size=number",
           {.for_workers = true,
            .of_checkpoints = true,
            .check = [](const std::string&, const std::string& text) { parse_types(text); }}),
      flag("--classes", &TrainFlags::classes, "of the target, if the data does not tell",
           {.limits = {.most = 1 << 24}, .for_workers = true, .of_checkpoints = true}),
      flag(
          "--length", &TrainFlags::length, "tokens that a language model sees at a time",
          {.show_default = true, .limits = {.least = 1, .most = 1 << 20}, .for_workers = true, .of_checkpoints = true}),
      flag(
          "--shape", &TrainFlags::shape,
          "what fields that are stored flat look like, such as image=3x32x32 for bytes of a record, or numbers=1x28x28",
          {.for_workers = true,
           .of_checkpoints = true,
           .check = [](const std::string&, const std::string& text) { parse_shapes(text); }}),
      flag("--image-size", &TrainFlags::image_size,
           "rows x columns that images of files are scaled to, such as 32x32; unless given, all must have the same",
           {.for_workers = true,
            .of_checkpoints = true,
            .check = [](const std::string&, const std::string& text) { parse_image_size(text); }}),
      flag("--augment", &TrainFlags::augment,
           "random changes of training images: shift:4 (by up to 4 pixels), mirror (left to right); a,b: both",
           {.for_workers = true, .of_checkpoints = true}),
      flag("--data-dir", &TrainFlags::data_dir,
           "folder of the data files, if not where Debian puts them; a,b: mirrors, in which a file that is "
           "missing or damaged in one is read from the next",
           {.for_workers = true}),
      flag("--epochs", &TrainFlags::epochs, "how often each sample is seen", {.show_default = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.epochs = flags.epochs; }),
      flag("--steps", &TrainFlags::steps, "updates to make, instead of --epochs", {.limits = {.least = 1}},
           [](auto& worker, const TrainFlags& flags) { worker.options.steps = flags.steps; }),
      flag("--batch", &TrainFlags::batch, "samples per step, over all workers",
           {.show_default = true, .limits = {.least = 1}, .of_checkpoints = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.batch = flags.batch; }),
      flag("--accumulate", &TrainFlags::accumulate,
           "parts in which each lane is computed, one after the other: for batches that do not fit in memory",
           {.show_default = true, .limits = {.least = 1}},
           [](auto& worker, const TrainFlags& flags) { worker.options.accumulate = flags.accumulate; }),
      flag("--seed", &TrainFlags::seed, "of all random numbers; the same seed gives the same run",
           {.show_default = true, .of_checkpoints = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.seed = flags.seed; }));
}

inline auto flags_of_who_takes_part() {
  return flag_group(
      "Who takes part",
      flag("-w,--workers", &TrainFlags::worker_range,
           "processes that compute gradients; 2:8: at most 8, and the job waits while there are fewer than 2",
           {.show_default = true,
            .check =
                [](const std::string& name, const std::string& text) {
                  check_at_least_one(name, parse_workers(text).start, "at least one worker is needed");
                },
            .set_job =
                [](launch::JobSpec& job, const TrainFlags& flags) {
                  job.workers = flags.workers;
                  job.min_workers = flags.min_workers;
                  job.min_start = flags.min_start;
                }}),
      flag("--restarts", &TrainFlags::restarts,
           "how often a process that dies is restarted before it is left alone for a minute; 0: never",
           {.show_default = true,
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.restarts = flags.restarts; }}),
      flag("--wait-for-workers", &TrainFlags::wait_for_workers, "seconds to wait for more when too few are left",
           {.show_default = true,
            .set_job = [](launch::JobSpec& job,
                          const TrainFlags& flags) { job.wait_for_workers = flags.wait_for_workers; }}),
      flag("--balance", &TrainFlags::balance,
           "move lanes from slow workers to fast ones where that makes steps shorter; best with several lanes per "
           "worker (--lanes)",
           {}, [](auto& worker, const TrainFlags& flags) { worker.options.balance = flags.balance; }),
      flag("--max-views", &TrainFlags::max_views, "give up after this many changes of membership; 0: never",
           {.show_default = true,
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.max_views = flags.max_views; }}),
      flag(
          "--strategy", &TrainFlags::strategy,
          "ps (the default): parameters on servers; allreduce (with --mesh): gradients summed among the workers; "
          "zero:1, zero:2, zero:3: the "
          "same, and workers divide the optimizer's state, gradients, parameters among them; local-sgd:16: parameters "
          "averaged every 16 "
          "steps; central: one server, all in step",
          {.unless_given = [](const TrainFlags& flags) { return std::string(flags.mesh.empty() ? "ps" : "allreduce"); },
           .check = [](const std::string&, const std::string& text) { cluster::parse_strategy(text); }},
          [](auto& worker, const TrainFlags& flags) {
            worker.options.strategy = cluster::parse_strategy(flags.strategy);
          }),
      flag("-s,--servers", &TrainFlags::servers,
           "processes that hold the parameters: 1 unless given; none with allreduce, zero and local-sgd",
           {.of_one_strategy = true,
            .unless_given = [](const TrainFlags& flags) { return uses_servers(flags) ? 1u : 0u; },
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.servers = flags.servers; }}),
      flag("--servers-per-host", &TrainFlags::servers_per_host,
           "under mpirun, srun, torchrun, …: how many servers the first process of each host has, instead of --servers",
           {.of_one_strategy = true}),
      flag("--hosts", &TrainFlags::hosts, "start workers and servers on other hosts over ssh: a:4,b:4 for 4 on each",
           {.of_one_launch = true}),
      flag("--hostfile", &TrainFlags::hostfile, "the same from a file: a line for each host, 'a:4' or 'a slots=4'",
           {.of_one_launch = true}),
      flag("--discover", &TrainFlags::discover,
           "a script that prints such lines, asked every 5 s: workers come and go with the hosts",
           {.of_one_launch = true}),
      flag("--backend", &TrainFlags::backend,
           "what carries the sums of allreduce and local-sgd: native, or mpi (under mpirun); auto: native",
           {.show_default = true,
            .choices = {"auto", "native", "mpi"},
            .set_job = [](launch::JobSpec& job,
                          const TrainFlags& flags) { job.backend = flags.backend == "mpi" ? "mpi" : ""; }}),
      flag("--replicas", &TrainFlags::replicas,
           "replicas of the parameters on other servers: 0, 1, or auto: 1 if there are two servers or more",
           {.show_default = true,
            .choices = {"auto", "0", "1"},
            .of_one_strategy = true,
            .set_job = [](launch::JobSpec& job,
                          const TrainFlags& flags) { job.replicas = parse_replicas(flags.replicas, flags.servers); }}),
      flag("--lanes", &TrainFlags::lanes,
           "slices of the batch, one per worker unless given; results depend on it, "
           "not on the number of workers",
           {.limits = {.least = 1},
            .of_checkpoints = true,
            .unless_given = [](const TrainFlags& flags) { return usual_lanes(flags); }},
           [](auto& worker, const TrainFlags& flags) { worker.options.lanes = flags.lanes; }),
      flag("--shard", &TrainFlags::shard,
           "which lane reads which samples: shuffled: any; blocks, round-robin: only its own part; proportional:3,2,1: "
           "blocks of these sizes",
           {.show_default = true,
            .of_checkpoints = true,
            .check = [](const std::string&, const std::string& text) { data::Sharding::parse(text); }},
           [](auto& worker, const TrainFlags& flags) { worker.options.sharding = data::Sharding::parse(flags.shard); }),
      flag("--consistency", &TrainFlags::consistency,
           "of strategy ps: bsp (unless given): all workers in step; ssp:4: at most 4 steps apart; asp: "
           "nobody waits",
           {.of_one_strategy = true,
            .unless_given = [](const TrainFlags& flags) { return std::string(is_ps(flags) ? "bsp" : ""); }},
           [](auto& worker, const TrainFlags& flags) {
             if (flags.consistency.empty()) return;
             const ps::Consistency parsed = ps::parse_consistency(flags.consistency);
             worker.options.consistency.mode = parsed.mode;
             worker.options.consistency.slack = parsed.slack;
           }),
      flag("--backup-workers", &TrainFlags::backup_workers, "bsp: do not wait for this many of the slowest workers",
           {.of_one_strategy = true},
           [](auto& worker, const TrainFlags& flags) {
             worker.options.consistency.backup_workers = flags.backup_workers;
           }),
      flag("--damp-stale", &TrainFlags::damp_stale, "ssp, asp: divide a gradient by its staleness",
           {.of_one_strategy = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.consistency.damp_stale = flags.damp_stale; }),
      flag("--device", &TrainFlags::device, "cpu, cuda, or one GPU such as cuda:1",
           {.show_default = true, .check = check_device},
           [](auto& worker, const TrainFlags& flags) { worker.set_device(flags.device); }),
      flag("--cuda-graphs", &TrainFlags::cuda_graphs,
           "auto: a GPU is given the work of a step as a whole where that can be, instead of kernel by kernel; off: "
           "never",
           {.show_default = true,
            .check =
                [](const std::string& name, const std::string& text) {
                  if (text != "auto" && text != "off") fail<InvalidArgument>("{} {}: use auto or off", name, text);
                }},
           [](auto& worker, const TrainFlags& flags) { worker.options.cuda_graphs = flags.cuda_graphs != "off"; }),
      flag("--deterministic", &TrainFlags::deterministic,
           "on a GPU: the same bits from run to run and for any number of workers, as always on the CPU; slower", {},
           [](auto& worker, const TrainFlags& flags) { worker.options.deterministic = flags.deterministic; }),
      flag("--threads", &TrainFlags::threads, "of LibTorch in each worker; 0: (cores - 1) / lanes",
           {.show_default = true, .limits = {.most = 1024}},
           [](auto& worker, const TrainFlags& flags) { worker.options.threads = flags.threads; }),
      flag("--transport", &TrainFlags::transport, "auto, shm, tcp or tls",
           {.show_default = true,
            .check = [](const std::string&, const std::string& text) { net::parse_transport(text); },
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.transport = flags.transport; }}),
      flag(
          "--codec", &TrainFlags::codec,
          "how gradients travel: none, fp16, bf16, int8, 1bit, topk:0.01 or randomk:0.01; with error feedback",
          {.show_default = true, .check = [](const std::string&, const std::string& text) { codec::parse_spec(text); }},
          [](auto& worker, const TrainFlags& flags) { worker.options.codec = codec::parse_spec(flags.codec); }),
      flag("--trace-algorithms", &TrainFlags::trace_algorithms,
           "log which collective algorithms are chosen, and why (logs/worker-0.log)",
           {.set_job = [](launch::JobSpec& job, const TrainFlags& flags) {
             job.trace_algorithms = flags.trace_algorithms;
           }}));
}

inline auto flags_of_how_it_learns() {
  return flag_group(
      "How it learns",
      flag("--optimizer", &TrainFlags::optimizer, "sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw or ftrl",
           {.show_default = true,
            .of_checkpoints = true,
            .check = [](const std::string&, const std::string& text) { optim::parse_rule(text); }},
           [](auto& worker, const TrainFlags& flags) {
             worker.options.optimizer.rule = optim::parse_rule(flags.optimizer);
           }),
      flag("--lr", &TrainFlags::lr, "learning rate", {.show_default = true, .limits = {.above = true}},
           [](auto& worker, const TrainFlags& flags) { worker.options.lr = flags.lr; }),
      flag("--momentum", &TrainFlags::momentum, "of momentum and nesterov",
           {.show_default = true, .limits = {.most = 1, .below = true}},
           [](auto& worker, const TrainFlags& flags) { worker.options.optimizer.momentum = flags.momentum; }),
      flag("--l2", &TrainFlags::l2, "weight decay", {.show_default = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.optimizer.l2 = flags.l2; }),
      flag("--groups", &TrainFlags::groups,
           "parameters with a rate or weight decay of their own, or frozen: '1d:decay=0' (biases and norms), "
           "'h.0.*:frozen;head.*:lr=10'",
           {.of_checkpoints = true,
            .check = [](const std::string& name,
                        const std::string& text) { check_parsed(name, text, optim::parse_groups); }},
           [](auto& worker, const TrainFlags& flags) { worker.options.groups = optim::parse_groups(flags.groups); }),
      flag("--ema", &TrainFlags::ema,
           "keep a moving average of the parameters, of which this share stays in each step, such as 0.999: it is what "
           "is evaluated and saved; 0: off",
           {.limits = {.most = 1, .below = true}, .of_checkpoints = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.optimizer.ema = flags.ema; }),
      flag("--prune", &TrainFlags::prune,
           "gradually set the smallest parameters to zero, until this share is: 0.9, or "
           "0.9,from=100,to=1000,every=50",
           {.of_checkpoints = true,
            .check =
                [](const std::string& name, const std::string& text) {
                  if (!text.empty()) check_parsed(name, text, optim::parse_pruning);
                }},
           [](auto& worker, const TrainFlags& flags) {
             if (!flags.prune.empty()) worker.options.prune = optim::parse_pruning(flags.prune);
           }),
      flag("--precision", &TrainFlags::precision,
           "of forward and backward: fp32, bf16, or fp16 (GPUs only); parameters stay fp32",
           {.show_default = true, .choices = {"fp32", "bf16", "fp16"}},
           [](auto& worker, const TrainFlags& flags) { worker.set_precision(flags.precision); }),
      flag(
          "--loss-scale", &TrainFlags::loss_scale,
          "multiply losses by this, and divide gradients by it, so that small ones survive in low precision: a number, "
          "dynamic (leaves out steps that overflow), or dynamic,init=65536,every=2000; dynamic with fp16, else 1",
          {.check =
               [](const std::string& name, const std::string& text) {
                 if (!text.empty()) check_parsed(name, text, optim::parse_loss_scale);
               }},
          [](auto& worker, const TrainFlags& flags) {
            if (!flags.loss_scale.empty()) worker.options.loss_scale = optim::parse_loss_scale(flags.loss_scale);
          }),
      flag("--label-smoothing", &TrainFlags::label_smoothing,
           "of classification: this share of each label is spread over all classes",
           {.limits = {.most = 1, .below = true}, .for_workers = true, .of_checkpoints = true}),
      flag("--clip-norm", &TrainFlags::clip_norm, "largest norm of the mean gradient of all workers; 0: off", {},
           [](auto& worker, const TrainFlags& flags) { worker.options.clip_norm = flags.clip_norm; }),
      flag("--clip-value", &TrainFlags::clip_value, "largest element of a gradient; 0: off", {},
           [](auto& worker, const TrainFlags& flags) { worker.options.optimizer.clip_value = flags.clip_value; }),
      flag("--schedule", &TrainFlags::schedule,
           "of the learning rate: cosine, linear, constant, step:10:0.1; cosine:900: for a run of 900 steps that may "
           "end "
           "earlier and go on later",
           {.show_default = true,
            .check = [](const std::string&, const std::string& text) { optim::make_schedule({.shape = text}); }},
           [](auto& worker, const TrainFlags& flags) { worker.options.schedule = flags.schedule; }),
      flag("--buffers", &TrainFlags::buffers,
           "batch-norm statistics after a step: average: mean over lanes; broadcast: the chief's; "
           "own: each worker's",
           {.show_default = true,
            .check = [](const std::string&, const std::string& text) { cluster::parse_buffers(text); }},
           [](auto& worker, const TrainFlags& flags) {
             worker.options.buffers = cluster::parse_buffers(flags.buffers);
           }),
      flag("--warmup", &TrainFlags::warmup, "steps over which the learning rate rises", {},
           [](auto& worker, const TrainFlags& flags) { worker.options.warmup = flags.warmup; }));
}

inline auto flags_of_when_it_ends() {
  return flag_group(
      "When it ends, what it writes",
      flag("--time-limit", &TrainFlags::time_limit, "stop after this many seconds",
           {.limits = {.above = true}, .of_one_launch = true},
           [](auto& worker, const TrainFlags& flags) { worker.limit_time(flags.time_limit); }),
      flag("--stop-at", &TrainFlags::stop_at,
           "stop when a metric of the test set reaches this: accuracy>=0.9, rmse<=0.5",
           {.check = [](const std::string& name, const std::string& text) { check_goal(name, text); }},
           [](auto& worker, const TrainFlags& flags) { worker.stop_at(flags.stop_at); }),
      flag("--early-stop", &TrainFlags::early_stop, "stop after this many epochs without a better test loss",
           {.limits = {.least = 1}},
           [](auto& worker, const TrainFlags& flags) { worker.stop_early(flags.early_stop); }),
      flag("--out", &TrainFlags::out, "run folder; runs/<time>-<model> unless given", {.of_one_launch = true}),
      flag("--overwrite", &TrainFlags::overwrite, "replace the run that is in --out", {.of_one_launch = true}),
      flag("--checkpoint-every", &TrainFlags::checkpoint_every,
           "steps, or epoch; 0: never. trireme resume continues from the last one",
           {.show_default = true,
            .check = [](const std::string&, const std::string& text) { parse_checkpoint_every(text); }},
           [](auto& worker, const TrainFlags& flags) {
             worker.options.checkpoint.every = parse_checkpoint_every(flags.checkpoint_every);
           }),
      flag("--keep-checkpoints", &TrainFlags::keep_checkpoints, "how many to keep, besides the best; 0: all",
           {.show_default = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.checkpoint.keep_last = flags.keep_checkpoints; }),
      flag("--checkpoint-rate", &TrainFlags::checkpoint_rate,
           "largest write speed of each process, such as 800mbit; unlimited unless given", {.check = check_bit_rate},
           [](auto& worker, const TrainFlags& flags) {
             if (flags.checkpoint_rate.empty()) return;
             worker.options.checkpoint.bytes_per_second = net::parse_bit_rate(flags.checkpoint_rate) / 8;
           }),
      flag("--log-every", &TrainFlags::log_every, "steps per row of metrics",
           {.show_default = true, .limits = {.least = 1}},
           [](auto& worker, const TrainFlags& flags) { worker.options.log_every = flags.log_every; }),
      flag("--histograms", &TrainFlags::histograms,
           "steps per histogram of the parameters and their gradients, for TensorBoard; 0: none",
           {.show_default = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.histograms_every = flags.histograms; }),
      flag(kLogLevelFlag, &TrainFlags::log_level, kLogLevelHelp,
           {.check = [](const std::string&, const std::string& text) { chosen_log_level(text); },
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.log_level = flags.log_level; }}),
      flag("--dash", &TrainFlags::dash,
           "serve the run's page on this host:port; port 0: any free one; beyond this machine (0.0.0.0:8000) over TLS, "
           "and "
           "only with the token; off: nowhere",
           {.show_default = true,
            .of_one_launch = true,
            .check =
                [](const std::string&, const std::string& text) {
                  if (text != "off") net::parse_address(text);
                },
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.dash = flags.dash; }}),
      flag("--dash-cert", &TrainFlags::dash_cert,
           "a PEM file with a certificate for the page, and its key; unless given, one is made where it is needed",
           {.of_one_launch = true,
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.dash_cert = flags.dash_cert; }}),
      flag(
          "--metrics", &TrainFlags::metrics,
          "each worker and server serves its own /metrics to this machine, on the first free port from this one on; 0: "
          "any; the page's /targets says where",
          {.of_one_launch = true,
           .check =
               [](const std::string&, const std::string& text) {
                 if (!text.empty()) cluster::parse_metrics_address(text);
               },
           .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.metrics = flags.metrics; }}),
      flag("--on-event", &TrainFlags::on_event,
           "a command to run, or a URL to POST to, when the run stalls, diverges, loses a process, recovers or ends",
           {.set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.on_event = flags.on_event; }}),
      flag("--json", &TrainFlags::json, "print one line of JSON at the end, and nothing else, on standard output",
           {.of_one_launch = true,
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.quiet = flags.json; }}),
      flag("--timeline", &TrainFlags::timeline,
           "write timeline.json: what each worker and server did when, for ui.perfetto.dev",
           {.set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.timeline = flags.timeline; }},
           [](auto& worker, const TrainFlags& flags) { worker.options.timeline = flags.timeline; }),
      flag("--profile", &TrainFlags::profile,
           "record what LibTorch and the GPU compute in so many steps, after ten to warm up: RUN/profile; 0: nothing",
           {.of_one_launch = true},
           [](auto& worker, const TrainFlags& flags) { worker.options.profile_steps = flags.profile; }));
}

inline auto flags_of_experiments() {
  return flag_group(
      "Experiments",
      flag("--slow", &TrainFlags::slow, "'1:10' makes worker 1 ten times as slow",
           {.check = [](const std::string&, const std::string& text) { parse_slow(text); }},
           [](auto& worker, const TrainFlags& flags) {
             if (const Slow slow = parse_slow(flags.slow); slow.worker == worker.rank) {
               worker.options.slowdown = slow.factor;
             }
           }),
      flag("--step-ms", &TrainFlags::step_ms, "minimum duration of a step, to simulate a larger model", {},
           [](auto& worker, const TrainFlags& flags) {
             worker.options.least_step = std::chrono::milliseconds(flags.step_ms);
           }),
      flag("--trace-steps", &TrainFlags::trace_steps,
           "write steps-<worker>-<pid>.log: when each step began and took effect",
           {.set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.trace_steps = flags.trace_steps; }},
           [](auto& worker, const TrainFlags& flags) { worker.options.trace_steps = flags.trace_steps; }),
      flag("--throttle", &TrainFlags::throttle, "limit links to this speed, such as 100mbit; over TCP",
           {.check = check_bit_rate,
            .set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.throttle = flags.throttle; }}),
      flag("--latency-ms", &TrainFlags::latency_ms,
           "delay everything that workers send each other in the background by this much",
           {.set_job = [](launch::JobSpec& job, const TrainFlags& flags) { job.latency_ms = flags.latency_ms; }}));
}

/// Calls `visit` with each flag, in the order of the help.
template <class Visit>
void for_each_train_flag(const Visit& visit) {
  for_each_flag(flags_of_what_to_train(), visit);
  for_each_flag(flags_of_who_takes_part(), visit);
  for_each_flag(flags_of_the_mesh(), visit);
  for_each_flag(flags_of_how_it_learns(), visit);
  for_each_flag(flags_of_when_it_ends(), visit);
  for_each_flag(flags_of_experiments(), visit);
}

}  // namespace trireme::cli
