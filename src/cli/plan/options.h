#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/goodput.h"
#include "plan/planner.h"

namespace trireme::cli {

/// The flags of `trireme plan` as they were given; empty = not given.
struct PlanFlags {
  std::string model;
  std::optional<std::uint32_t> workers;
  std::optional<std::uint32_t> hosts;
  std::string memory;
  std::string flops;
  std::string bandwidth = "100gbit";
  std::string latency = "20us";
  std::string host_bandwidth;
  std::string host_latency;
  std::optional<std::uint64_t> batch;
  std::optional<std::uint64_t> length;
  std::string image;
  std::optional<std::uint64_t> classes;
  std::string attention;
  std::string precision = "fp32";
  std::string optimizer = "adam";
  std::string reduction = "exact";
  std::string mesh;
  std::optional<std::uint32_t> zero;
  std::string schedule;
  std::optional<std::uint32_t> chunks;
  std::optional<std::uint32_t> micro_batches;
  std::string recompute;
  bool offload = false;
  bool calibrate = false;
  std::string calibration;  ///< a file; empty = the usual one
  std::uint32_t top = 10;
  std::optional<double> mtbf;
  std::string straggler;
  std::string checkpoint_time = "30s";
  std::string restart_time = "60s";
  std::uint64_t seed = 1;
  std::optional<std::uint32_t> stages;
  std::string schedule_file;
  std::string times = "1:1:1";
  double message = 0;
  bool json = false;
  std::string svg;
  std::string csv;
  bool messages = false;
};

/// What a command prints, and its exit status.
struct PlanAnswer {
  std::string text;
  int status = 0;
};

/// Plans a training: 0 = something fits, 1 = nothing does. Writes the files of --svg and --csv. Throws InvalidArgument,
/// naming the flag, if a flag is wrong or the request is impossible.
PlanAnswer answer_plan(const PlanFlags& flags);

/// Measures this machine for --model and keeps the result (--calibration); with --workers it then plans. Throws as
/// above, and Timeout.
PlanAnswer answer_calibration(const PlanFlags& flags);

/// Draws a schedule. Throws as above; with --schedule-file also if the file is missing or is no sound schedule.
PlanAnswer answer_schedule(const PlanFlags& flags);

/// Returns the request that the flags describe. Throws as above.
plan::PlanRequest plan_request(const PlanFlags& flags);

/// How a plan does when workers fail or are slow; only with --mtbf or --straggler.
struct GoodputAnswer {
  plan::FailureModel model;
  plan::Goodput from_checkpoint;
  std::optional<plan::Goodput> from_replica;  ///< where every rank's state is on another one, too
};
std::optional<GoodputAnswer> goodput_of(const PlanFlags& flags, const plan::PlanRequest& request,
                                        const plan::Candidate& candidate);

/// Replaces `path` by `text`. Throws IoError naming the file.
void write_text(const std::string& path, const std::string& text);

}  // namespace trireme::cli
