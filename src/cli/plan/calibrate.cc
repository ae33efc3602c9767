#include "cli/plan/calibrate.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/threads.h"
#include "cli/bench/process.h"
#include "cli/model/model_use.h"
#include "cluster/host_load.h"
#include "collective/communicator.h"
#include "launch/companion.h"
#include "launch/supervisor.h"

namespace trireme::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of one sum of `elements` floats between two processes, the least of some rounds.
double time_sums(collective::Communicator& ranks, std::size_t elements, int times) {
  const std::shared_ptr<std::byte> memory = ranks.allocate(elements * sizeof(float));
  const std::span<float> data(reinterpret_cast<float*>(memory.get()), elements);
  std::ranges::fill(data, 0.0f);
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    ranks.run(collective::barrier());
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < times; ++i) ranks.run(collective::all_reduce(data));
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count() / times);
  }
  return best;
}

/// An all-reduce of B bytes between two takes 2 · (latency + B / 2 / bandwidth): see plan/cost/collective_time.h.
plan::Link measure_link() {
  constexpr std::size_t kSmall = 1024;
  constexpr std::size_t kLarge = 2u << 20;
  const std::string secret = random_hex(32);
  std::vector<std::unique_ptr<BenchProcess>> processes;
  for (unsigned rank = 0; rank < 2; ++rank) {
    processes.push_back(std::make_unique<BenchProcess>(fmt::format("rank {}", rank), [&](const BenchLink& link) {
      collective::Endpoint endpoint({.secret = secret});
      link.send(observe::Json(nlohmann::json(endpoint.address())));
      const auto members = link.receive();
      if (!members) return;
      collective::Communicator ranks(
          endpoint, {.rank = rank, .members = nlohmann::json(*members).get<std::vector<net::Address>>()});
      link.send({time_sums(ranks, kSmall, 200), time_sums(ranks, kLarge, 5)});
      link.receive();
    }));
  }
  nlohmann::json members = nlohmann::json::array();
  for (const auto& process : processes) members.push_back(nlohmann::json(process->receive()));
  for (const auto& process : processes) process->send(observe::Json(members));
  double small = 0;
  double large = 0;
  for (const auto& process : processes) {
    const auto times = process->receive();
    small = std::max(small, times[0].get<double>());
    large = std::max(large, times[1].get<double>());
  }
  const double bytes = static_cast<double>((kLarge - kSmall) * sizeof(float));
  return {.bytes_per_second = bytes / std::max(1e-9, large - small), .latency = small / 2};
}

/// By layer: the first that costs the same.
std::vector<std::size_t> alike(const plan::ModelCost& model) {
  std::vector<std::size_t> like;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const plan::LayerCost& layer = model.layers[i];
    const bool same = i > 0 && model.layers[i - 1].parameters == layer.parameters &&
                      model.layers[i - 1].forward_flops == layer.forward_flops &&
                      model.layers[i - 1].input == layer.input && model.layers[i - 1].output == layer.output;
    like.push_back(same ? like.back() : i);
  }
  return like;
}

nlohmann::json layer_times_request(const CalibrateOptions& options) {
  const plan::ModelInput& input = options.model.input;
  const bool tokens = options.model.sample.ends_with("tokens");
  nlohmann::json request{{"model", options.model.name},
                         {"precision", plan::name_of(options.precision)},
                         {"shape", input.shape},
                         {"tokens", tokens},
                         {"classes", input.classes},
                         {"like", alike(options.model)},
                         {"most_samples", options.most_samples},
                         {"seconds", options.seconds},
                         {"threads", options.threads}};
  if (tokens) request["shape"] = {input.length};
  return request;
}

/// Runs `count` workers at once that time the layers; returns what each says.
std::vector<nlohmann::json> run_workers(const nlohmann::json& request, std::uint32_t count, double seconds) {
  const JobFolder folder;
  std::filesystem::create_directories(folder.path());
  launch::Supervisor supervisor;
  std::vector<std::filesystem::path> logs;
  for (std::uint32_t i = 0; i < count; ++i) {
    logs.push_back(folder.path() / fmt::format("{}.json", i));
    supervisor.start({.name = fmt::format("trireme-worker {}", i),
                      .argv = {launch::companion_program("trireme-worker"), "time-layers", request.dump()},
                      .env = {{"OPENBLAS_NUM_THREADS", request.at("threads").dump()}},
                      .log = logs.back()});
  }
  constexpr double kMostTimes = 30;  // a busy machine, a large model
  const Deadline deadline =
      Deadline::in(std::chrono::milliseconds(static_cast<long>(1000 * kMostTimes * (1 + seconds))));
  while (supervisor.alive() > 0) {
    supervisor.wait(deadline);
    if (supervisor.alive() > 0 && deadline.passed()) {
      fail<Timeout>(
          "--calibrate: the layers were not timed within {:.0f} s: is the machine busy? Take a smaller --model",
          kMostTimes * (1 + seconds));
    }
  }
  std::vector<nlohmann::json> results;
  for (const auto& log : logs) {
    const std::string text = read_file(log.string());
    const nlohmann::json result = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!result.is_object()) fail<InvalidArgument>("--calibrate: {}", text);
    results.push_back(result);
  }
  return results;
}

}  // namespace

plan::Calibration calibrate(const CalibrateOptions& options) {
  plan::Calibration calibration{.model = options.model.name,
                                .sample = options.model.sample,
                                .classes = options.model.input.classes,
                                .precision = options.precision,
                                .threads = options.threads,
                                .cores = available_cores(),
                                .memory = static_cast<double>(cluster::host_load().free),
                                .link = measure_link()};
  const std::uint32_t count = std::max(1u, calibration.cores / std::max(1u, options.threads));
  const auto results = run_workers(layer_times_request(options), count, options.seconds);
  const double share = 1.0 / static_cast<double>(results.size());
  std::size_t sizes = results.front().at("samples").size();
  for (const nlohmann::json& result : results) sizes = std::min(sizes, result.at("samples").size());
  for (std::size_t s = 0; s < sizes; ++s) {
    calibration.samples.push_back(results.front().at("samples")[s]);
    std::vector<plan::LayerTiming>& row = calibration.layers.emplace_back(options.model.layers.size());
    for (const nlohmann::json& result : results) {
      for (std::size_t layer = 0; layer < row.size(); ++layer) {
        row[layer].forward += share * result.at("layers")[s][layer][0].get<double>();
        row[layer].backward += share * result.at("layers")[s][layer][1].get<double>();
      }
    }
  }
  for (const nlohmann::json& result : results) {
    calibration.update_seconds += share * result.at("update_seconds").get<double>();
    calibration.copy_seconds += share * result.at("copy_seconds").get<double>();
  }
  calibration.fused_attention = results.front().at("fused_attention");
  double seconds = 0;
  for (const plan::LayerTiming& layer : calibration.layers.back()) seconds += layer.forward + layer.backward;
  calibration.flops = 3 * options.model.forward_flops() * calibration.samples.back() / seconds;
  return calibration;
}

}  // namespace trireme::cli
