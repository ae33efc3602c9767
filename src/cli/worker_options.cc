#include "cli/worker_options.h"

#include <cmath>

#include <torch/cuda.h>

#include "base/error.h"
#include "cli/train_flag_table.h"

namespace trireme::cli {
namespace {

/// What the flags set on a worker; see TrainFlag::set_option.
struct WorkerOptions {
  Rank rank = 0;
  TrainOptions options = {};

  void set_device(const std::string& name) {
    if (name == "cpu") return;
    if (!torch::cuda::is_available()) {
      fail<InvalidArgument>("--device {}: this LibTorch sees no CUDA device; use --device cpu, or a CUDA build", name);
    }
    options.device = torch::Device(name);
    if (name == "cuda") options.device.set_index(static_cast<c10::DeviceIndex>(rank % torch::cuda::device_count()));
  }

  void limit_time(double seconds) {
    if (seconds > 0) add(trireme::limit_time(std::chrono::milliseconds(std::lround(seconds * 1000))));
  }

  void stop_at_accuracy(double accuracy) {
    if (accuracy > 0) add(trireme::stop_at_accuracy(accuracy));
  }

  void stop_early(std::uint32_t patience) {
    if (patience > 0) add(trireme::stop_early(patience));
  }

 private:
  /// In front of the others: of callbacks that stop training in the same step, the last one's reason is reported.
  void add(std::shared_ptr<Callback> callback) {
    options.callbacks.insert(options.callbacks.begin(), std::move(callback));
  }
};

}  // namespace

TrainOptions to_options(const TrainFlags& flags, Rank rank) {
  WorkerOptions worker{.rank = rank};
  for_each_train_flag([&](const auto& flag) {
    if constexpr (std::remove_cvref_t<decltype(flag)>::kSetsOption) flag.set_option(worker, flags);
  });
  return std::move(worker.options);
}

}  // namespace trireme::cli
