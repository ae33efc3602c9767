#include "app/measure_sums.h"

#include <algorithm>
#include <chrono>

#include "trireme/job.h"

#include "base/error.h"
#include "base/log.h"
#include "base/numbers/lanes.h"
#include "cluster/environment.h"
#include "job/job_session.h"
#include "tensor/device/device.h"
#include "tensor/device/device_sums.h"

namespace trireme::app {
namespace {

constexpr std::size_t kLeast = 10;  // sums per figure

/// Microseconds that `work` takes on its own, the middle of many times; the slowest rank's. All ranks do it as often.
template <typename Work>
double median_us(collective::Communicator& ranks, double seconds, const Work& work) {
  const auto time = [&] {
    ranks.run(collective::barrier());
    const auto begin = std::chrono::steady_clock::now();
    work();
    return 1e6 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto slowest = [&](double us) {
    ranks.run(collective::all_reduce(std::span<double>(&us, 1), {.op = collective::ReduceOp::kMax}));
    return us;
  };
  time();  // what is done once
  const double about = slowest(time());
  const auto count = std::max(kLeast, static_cast<std::size_t>(1e6 * seconds / std::max(1.0, about)));
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(time());
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(count / 2));
  return slowest(times[count / 2]);
}

}  // namespace

void measure_sums(const SumsRequest& request) {
  if (const auto place = cluster::read_environment()) set_up_logging(place->logging());
  const auto job = Job::join();
  collective::Communicator& ranks = job->ranks();
  const torch::Device device = pick_device(request.device, job->rank());
  if (!device::runs_on(device)) {
    fail<InvalidArgument>("{}: this build has no kernels for it: they need nvcc and a LibTorch with CUDA",
                          request.device);
  }
  nlohmann::json rows = nlohmann::json::array();
  std::string engine;
  for (const std::size_t bytes : request.bytes) {
    const std::size_t floats = std::max<std::size_t>(1, bytes / sizeof(float));
    const auto sums = std::make_shared<DeviceSums>(floats, device);
    sums->connect(ranks, deal_lanes(ranks.size(), ranks.size()),
                  request.through_host ? SumsWay::kHost : SumsWay::kBest);
    engine = sums->engine();
    const double us = median_us(ranks, request.seconds, [&] { sums->reduce(); });
    const torch::Tensor from = torch::zeros({static_cast<std::int64_t>(floats)}, device);
    torch::Tensor to = torch::empty_like(from);
    const double copy_us = median_us(ranks, request.seconds / 4, [&] {
      if (job->rank() == 0) to.copy_(from);  // the others leave the device alone
      device::synchronize(device);
    });
    rows.push_back({{"bytes", floats * sizeof(float)}, {"us", us}, {"copy_us", copy_us}});
    sums->leave();
  }
  ranks.run(collective::barrier());
  if (job->chief()) job->session().membership().post_result({{"engine", engine}, {"rows", std::move(rows)}});
  job->leave();
}

}  // namespace trireme::app
