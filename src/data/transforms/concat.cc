#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "trireme/transforms.h"

#include "base/error.h"
#include "data/transforms/gather.h"

namespace trireme::data {
namespace {

void check_same_schema(const std::vector<DatasetPtr>& sources, const char* what) {
  if (sources.empty()) fail<InvalidArgument>("nothing to {}: give at least one dataset", what);
  for (const DatasetPtr& source : sources) {
    if (source->schema() == sources.front()->schema()) continue;
    fail<InvalidArgument>("cannot {} samples of different fields: {} and {}", what, sources.front()->describe(),
                          source->describe());
  }
}

class Concat final : public Dataset {
 public:
  explicit Concat(std::vector<DatasetPtr> sources) : Dataset(sources.front()->schema()), sources_(std::move(sources)) {
    for (const DatasetPtr& source : sources_) ends_.push_back(size() + source->size());
  }

  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string describe() const override {
    return fmt::format("{} datasets, the first {}: {}", sources_.size(), sources_.front()->describe(), summary());
  }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    gather(sources_, schema(), indices, out, epoch, [&](std::uint64_t index) -> Place {
      const auto end = std::ranges::upper_bound(ends_, index);
      const auto source = static_cast<std::size_t>(end - ends_.begin());
      return {.source = source, .index = index - (source == 0 ? 0 : ends_[source - 1])};
    });
  }

  std::vector<DatasetPtr> sources_;
  std::vector<std::uint64_t> ends_;
};

class Mix final : public Dataset {
 public:
  Mix(std::vector<DatasetPtr> sources, const std::vector<double>& weights, std::uint64_t samples)
      : Dataset(sources.front()->schema()), sources_(std::move(sources)), samples_(samples) {
    double total = 0;
    for (const double weight : weights) total += weight;
    double sum = 0;
    for (const double weight : weights) ends_.push_back((sum += weight) / total);
    ends_.back() = 1;
    deal();
  }

  std::uint64_t size() const override { return samples_; }
  std::string describe() const override {
    std::string text;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      text += fmt::format("{}{:.1f} % {}", i == 0 ? "" : " and ", 100 * (ends_[i] - (i == 0 ? 0 : ends_[i - 1])),
                          sources_[i]->describe());
    }
    return fmt::format("a mixture of {} samples: {}", samples_, text);
  }

 private:
  /// Sample i comes from the source in whose part of [0, 1) the i-th number of a sequence falls that fills it evenly
  /// (the golden ratio's), so every stretch of the mixture has the same composition.
  void deal() {
    counts_.assign(sources_.size(), 0);
    places_.reserve(samples_);
    for (std::uint64_t i = 0; i < samples_; ++i) {
      const double at = std::fmod(0.5 + static_cast<double>(i) * 0.61803398874989484820, 1.0);
      const auto source = static_cast<std::uint32_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
      const auto chosen = std::min<std::uint32_t>(source, static_cast<std::uint32_t>(sources_.size() - 1));
      places_.push_back({chosen, counts_[chosen]++});
    }
  }

  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t epoch) const override {
    gather(sources_, schema(), indices, out, epoch, [&](std::uint64_t index) -> Place {
      const auto& [source, number] = places_[index];
      return {.source = source, .index = (epoch * counts_[source] + number) % sources_[source]->size()};
    });
  }

  struct Dealt {
    std::uint32_t source = 0;
    std::uint64_t number = 0;  // of this source's samples in the mixture
  };

  std::vector<DatasetPtr> sources_;
  std::uint64_t samples_;
  std::vector<double> ends_;           // where the part of each source in [0, 1) ends
  std::vector<std::uint64_t> counts_;  // samples of each source in an epoch
  std::vector<Dealt> places_;
};

}  // namespace

DatasetPtr concat(std::vector<DatasetPtr> sources) {
  check_same_schema(sources, "join");
  return std::make_shared<Concat>(std::move(sources));
}

DatasetPtr mix(std::vector<Share> shares, std::uint64_t samples) {
  std::vector<DatasetPtr> sources;
  std::vector<double> weights;
  std::uint64_t all = 0;
  for (Share& share : shares) {
    if (!(share.weight > 0) || !std::isfinite(share.weight)) {
      fail<InvalidArgument>("a weight of {} for {}: weights are above 0", share.weight, share.source->describe());
    }
    all += share.source->size();
    weights.push_back(share.weight);
    sources.push_back(std::move(share.source));
  }
  check_same_schema(sources, "mix");
  return std::make_shared<Mix>(std::move(sources), weights, samples > 0 ? samples : all);
}

}  // namespace trireme::data
