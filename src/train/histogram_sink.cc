#include "train/histogram_sink.h"

#include <algorithm>

#include "tensor/device/device_kernels.h"

namespace trireme {

void HistogramSink::add(std::size_t i) {
  const std::span<const float> sum = to_.gradient(i);
  std::vector<float> mean(sum.size());
  if (on_device()) {
    device::copy_to_host(sum, mean, device_);
  } else {
    std::ranges::copy(sum, mean.begin());
  }
  for (float& value : mean) value = static_cast<float>(value / std::max(1.0, samples_));
  histograms_.resize(std::max(histograms_.size(), i + 1));
  histograms_[i] = observe::histogram_of(mean);
  to_.add(i);
}

}  // namespace trireme
