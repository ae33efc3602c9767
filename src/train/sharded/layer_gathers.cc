#include "train/sharded/layer_gathers.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

LayerGathers::LayerGathers(ShardedParameters& parameters, std::shared_ptr<const MadeLayers> layers,
                           collective::Communicator* group)
    : parameters_(parameters), layers_(std::move(layers)), group_(group), whole_(parameters.layout().buckets()) {
  buckets_.resize(layers_->list().size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    for (const std::size_t layer : layers_->users().at(parameters_.name(i))) {
      buckets_[layer].push_back(parameters_.layout().bucket_of(i));
    }
  }
  for (std::vector<std::size_t>& buckets : buckets_) {
    std::ranges::sort(buckets);
    const auto rest = std::ranges::unique(buckets);
    buckets.erase(rest.begin(), rest.end());
  }
  layers_->set_watch(this);
}

LayerGathers::~LayerGathers() { layers_->set_watch(nullptr); }

void LayerGathers::before_forward(std::size_t layer) {
  if (layer == 0) drop();  // another pass begins
  need(layer);
  if (layer + 1 < buckets_.size()) start(layer + 1);
}

void LayerGathers::after_forward(std::size_t layer) {
  const bool last = layer + 1 == buckets_.size();
  if (!last || !torch::GradMode::is_enabled()) release(layer);  // the last one's backward follows at once
}

void LayerGathers::before_backward(std::size_t layer) {
  if (layer + 1 < buckets_.size()) release(layer + 1);
  need(layer);
  if (layer > 0) start(layer - 1);
}

void LayerGathers::skip_pass(bool backward) {
  for (std::size_t layer = 0; layer < buckets_.size(); ++layer) {
    before_forward(layer);
    const torch::AutoGradMode mode(backward);
    after_forward(layer);
  }
  for (std::size_t layer = buckets_.size(); backward && layer-- > 0;) before_backward(layer);
  drop();
}

void LayerGathers::start(std::size_t layer) {
  for (const std::size_t bucket : buckets_[layer]) {
    if (whole_[bucket]) continue;
    const ShardLayout& layout = parameters_.layout();
    Whole& whole = whole_[bucket].emplace();
    whole.memory.reset(new float[layout.floats(bucket)]);
    const std::span<float> to(whole.memory.get(), layout.floats(bucket));
    floats_ += to.size();
    most_floats_ = std::max(most_floats_, floats_);
    const std::span<const float> own = parameters_.shown_slice(bucket);
    if (group_ == nullptr) {
      std::ranges::copy(own, to.begin());
      continue;
    }
    collective::Operation operation = collective::all_gather(own, to, layout.counts(bucket));
    operation.label = fmt::format("layer {}", layers_->list()[layer].name);
    whole.pending = collective::PendingOperation(*group_, std::move(operation));
  }
}

void LayerGathers::need(std::size_t layer) {
  start(layer);
  for (const std::size_t bucket : buckets_[layer]) {
    Whole& whole = *whole_[bucket];
    if (whole.ready) continue;
    whole.pending.wait();
    parameters_.show_whole(bucket, whole.memory);
    whole.ready = true;
  }
}

void LayerGathers::release(std::size_t layer) {
  for (const std::size_t bucket : buckets_[layer]) {
    if (!whole_[bucket]) continue;
    whole_[bucket]->pending.wait();
    parameters_.hide_whole(bucket);
    whole_[bucket].reset();
    floats_ -= parameters_.layout().floats(bucket);
  }
}

void LayerGathers::drop() {
  for (std::size_t layer = 0; layer < buckets_.size(); ++layer) release(layer);
}

void LayerGathers::gather_all(bool keep) {
  drop();
  for (std::size_t layer = 0; layer < buckets_.size(); ++layer) {
    need(layer);
    if (!keep) release(layer);
  }
}

}  // namespace trireme
