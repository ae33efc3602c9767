#include "tensor/operation_profile.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <span>

#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "base/file.h"

namespace trireme {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

// Later releases count in nanoseconds.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
double began(const profiler::KinetoEvent& event) { return static_cast<double>(event.startNs()) * 1e-9; }
double took(const profiler::KinetoEvent& event) { return static_cast<double>(event.durationNs()) * 1e-9; }
#else
double began(const profiler::KinetoEvent& event) { return static_cast<double>(event.startUs()) * 1e-6; }
double took(const profiler::KinetoEvent& event) { return static_cast<double>(event.durationUs()) * 1e-6; }
#endif

/// One operation, where and when.
struct Moment {
  std::string name;
  std::uint64_t thread = 0;  ///< of the host, or stream of the device
  double begin = 0;
  double seconds = 0;
};

class Sums {
 public:
  void add(const std::string& name, double seconds) {
    OperationCost& cost = costs_[name];
    ++cost.calls;
    cost.seconds += seconds;
  }

  std::vector<OperationCost> take() {
    std::vector<OperationCost> all;
    for (auto& [name, cost] : costs_) {
      cost.name = name;
      cost.part = part_of_step(name);
      all.push_back(std::move(cost));
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &OperationCost::seconds);
    return all;
  }

 private:
  std::map<std::string, OperationCost> costs_;
};

/// Adds each operation without what it called, which lies within it on the same thread.
void add_own_times(std::vector<Moment> moments, Sums& sums) {
  std::ranges::sort(moments, [](const Moment& a, const Moment& b) {
    return std::tie(a.thread, a.begin, b.seconds) < std::tie(b.thread, b.begin, a.seconds);
  });
  std::vector<std::size_t> open;
  std::vector<double> own(moments.size());
  for (std::size_t i = 0; i < moments.size(); ++i) {
    own[i] = moments[i].seconds;
    const auto ended = [&](std::size_t outer) {
      return moments[outer].thread != moments[i].thread ||
             moments[outer].begin + moments[outer].seconds <= moments[i].begin;
    };
    while (!open.empty() && ended(open.back())) open.pop_back();
    if (!open.empty()) own[open.back()] -= moments[i].seconds;
    open.push_back(i);
  }
  for (std::size_t i = 0; i < moments.size(); ++i) sums.add(moments[i].name, std::max(own[i], 0.0));
}

/// The time in which at least one of them ran.
double covered(std::vector<Moment> moments) {
  std::ranges::sort(moments, {}, &Moment::begin);
  double total = 0;
  double end = 0;
  for (const Moment& moment : moments) {
    const double to = moment.begin + moment.seconds;
    total += std::max(0.0, to - std::max(end, moment.begin));
    end = std::max(end, to);
  }
  return total;
}

/// Writes what runs on the host and on the device as a trace for ui.perfetto.dev: times in microseconds from the first.
void write_trace(const std::filesystem::path& file, const std::vector<Moment>& on_host,
                 const std::vector<Moment>& on_device) {
  constexpr double kMicro = 1e6;
  double first = std::numeric_limits<double>::infinity();
  for (const auto* all : {&on_host, &on_device}) {
    for (const Moment& moment : *all) first = std::min(first, moment.begin);
  }
  nlohmann::json events = nlohmann::json::array();
  for (const auto* all : {&on_host, &on_device}) {
    const char* place = all == &on_host ? "host" : "device";
    const int process = all == &on_host ? 0 : 1;
    events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", place}}}});
    for (const Moment& moment : *all) {
      events.push_back({{"ph", "X"},
                        {"pid", process},
                        {"tid", moment.thread},
                        {"name", moment.name},
                        {"cat", part_of_step(moment.name)},
                        {"ts", (moment.begin - first) * kMicro},
                        {"dur", moment.seconds * kMicro}});
    }
  }
  const std::string text = nlohmann::json{{"traceEvents", std::move(events)}}.dump() + "\n";
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  write_file_atomically(file, std::as_bytes(std::span(text)));
}

struct Word {
  const char* text;
  const char* part;
};

// The first that the name has; kernels of cuBLAS and cuDNN first, whose names are long.
constexpr std::array kWords{
    Word{"emcpy", "copies"},
    Word{"emset", "copies"},
    Word{"sdpa", "attention"},
    Word{"flash", "attention"},
    Word{"fmha", "attention"},
    Word{"attention", "attention"},
    Word{"cross_entropy", "loss"},
    Word{"nll_loss", "loss"},
    Word{"log_softmax", "loss"},
    Word{"update_slices", "update"},
    Word{"squares", "update"},
    Word{"add_partials", "update"},
    Word{"sum_lanes", "sums"},
    Word{"sum_two", "sums"},
    Word{"layer_norm", "norms"},
    Word{"LayerNorm", "norms"},
    Word{"add_blocks", "norms"},
    Word{"batch_norm", "norms"},
    Word{"bn_", "norms"},
    Word{"sum_stripes", "biases"},
    Word{"add_stripes", "biases"},
    Word{"gelu", "activations"},
    Word{"Gelu", "activations"},
    Word{"relu", "activations"},
    Word{"embedding", "embeddings"},
    Word{"indexSelect", "embeddings"},
    Word{"index_select", "embeddings"},
    Word{"gemm", "products"},
    Word{"nvjet", "products"},
    Word{"cutlass", "products"},
    Word{"splitK", "products"},
    Word{"addmm", "products"},
    Word{"aten::mm", "products"},
    Word{"aten::bmm", "products"},
    Word{"conv", "products"},
    Word{"fprop", "products"},
    Word{"dgrad", "products"},
    Word{"wgrad", "products"},
    Word{"CatArray", "copies"},
    Word{"copy", "copies"},
    Word{"aten::cat", "copies"},
};

}  // namespace

std::string part_of_step(const std::string& operation) {
  // Ours are called what they do, in a namespace of ours.
  if (operation.find("trireme") != std::string::npos && operation.find("Entropy") == std::string::npos) {
    if (operation.find("LayerNorm") != std::string::npos) return "norms";
    if (operation.find("Logits") != std::string::npos) return "loss";
  }
  for (const Word& word : kWords) {
    if (operation.find(word.text) != std::string::npos) return word.part;
  }
  return "other";
}

nlohmann::json to_json(const OperationCosts& costs) {
  std::map<std::string, double> parts;
  nlohmann::json operations = nlohmann::json::array();
  for (const OperationCost& cost : costs.operations) {
    parts[cost.part] += cost.seconds;
    operations.push_back({{"name", cost.name}, {"part", cost.part}, {"calls", cost.calls}, {"seconds", cost.seconds}});
  }
  return {{"seconds", costs.seconds},
          {"device_seconds", costs.device_seconds},
          {"parts", parts},
          {"operations", operations}};
}

OperationProfile::OperationProfile(torch::Device device) : device_(device) {
  const std::set<ActivityType> activities =
      device.is_cuda() ? std::set{ActivityType::CPU, ActivityType::CUDA} : std::set{ActivityType::CPU};
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
}

OperationProfile::~OperationProfile() {
  if (!recording_) return;
  try {
    profiler::disableProfiler();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): what was recorded is not wanted
  }
}

OperationCosts OperationProfile::finish(const std::filesystem::path& trace) {
  recording_ = false;
  if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  const auto result = profiler::disableProfiler();
  std::vector<Moment> on_device;
  std::vector<Moment> on_host;
  for (const profiler::KinetoEvent& event : result->events()) {
    const bool by_device = device_.is_cuda() && event.deviceType() == device_.type();
    const auto thread = by_device ? static_cast<std::uint64_t>(event.deviceResourceId()) : event.startThreadId();
    (by_device ? on_device : on_host).push_back({event.name(), thread, began(event), took(event)});
  }
  OperationCosts costs;
  Sums sums;
  for (const std::vector<Moment>* all : {&on_device, &on_host}) {
    if (all->empty()) continue;
    const auto first = std::ranges::min(*all, {}, &Moment::begin).begin;
    double last = first;
    for (const Moment& moment : *all) last = std::max(last, moment.begin + moment.seconds);
    costs.seconds = last - first;
    if (all == &on_device) {
      for (const Moment& moment : on_device) sums.add(moment.name, moment.seconds);
      costs.device_seconds = covered(on_device);
      break;
    }
    add_own_times(on_host, sums);
  }
  costs.operations = sums.take();
  write_trace(trace, on_host, on_device);
  return costs;
}

}  // namespace trireme
