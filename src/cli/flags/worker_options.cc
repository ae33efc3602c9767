#include "cli/flags/worker_options.h"

#include <cmath>

#include "cli/flags/train_flag_table.h"
#include "tensor/device/device.h"

namespace trireme::cli {
namespace {

/// What the flags set on a worker; see TrainFlag::set_option.
struct WorkerOptions {
  Rank rank = 0;
  TrainOptions options = {};

  void set_device(const std::string& name) { options.device = pick_device(name, rank); }

  void set_precision(const std::string& name) { options.precision = parse_precision(name); }

  void limit_time(double seconds) {
    if (seconds > 0) add(trireme::limit_time(std::chrono::milliseconds(std::lround(seconds * 1000))));
  }

  void stop_at(const std::string& goal) {
    if (!goal.empty()) add(trireme::stop_at(Goal::parse(goal)));
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
