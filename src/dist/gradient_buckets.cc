#include "dist/gradient_buckets.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "collective/reduction.h"
#include "tensor/torch_dtype.h"

namespace trireme::dist {
GradientBuckets::GradientBuckets(Negotiation& negotiation, std::vector<torch::Tensor> parameters,
                                 GradientBucketsOptions options)
    : negotiation_(negotiation),
      options_(std::move(options)),
      parameters_(std::move(parameters)),
      places_(parameters_.size()) {
  codec::validate(options_.compression);
  if (options_.op != collective::ReduceOp::kAverage && options_.op != collective::ReduceOp::kSum) {
    fail<InvalidArgument>("gradients are averaged or summed: {} of them is no gradient", name_of(options_.op));
  }
  for (const torch::ScalarType type : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16}) {
    lay_out(type);
  }
  std::size_t placed = 0;
  for (const Block& block : blocks_) placed += block.members.size();
  if (placed < parameters_.size()) {
    fail<InvalidArgument>("{} parameters are neither float32, float64, float16 nor bfloat16: others have no sum here",
                          parameters_.size() - placed);
  }
  place_on_device();
  for (Block& block : blocks_) {
    if (!alone() && !(on_device_ && block.dtype == DType::kF32)) lay_out_memory(block);
  }
  begin_step();
}

bool GradientBuckets::alone() const {
  return negotiation_.ranks().size() == 1 && options_.lanes.empty() && options_.compression.kind == codec::Kind::kNone;
}

void GradientBuckets::lay_out(torch::ScalarType type) {
  Block block{.dtype = *dtype_of(type)};
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].scalar_type() != type) continue;
    places_[i].block = blocks_.size();
    places_[i].member = block.members.size();
    block.members.push_back(i);
    elements.push_back(static_cast<std::size_t>(parameters_[i].numel()));
  }
  if (block.members.empty()) return;
  const std::size_t element = size_of(block.dtype);
  block.buckets =
      Buckets(elements, {.bytes = options_.bucket_bytes, .element_bytes = element, .cut_unit = codec::kBlock});
  blocks_.push_back(std::move(block));
}

void GradientBuckets::lay_out_memory(Block& block) {
  const torch::ScalarType type = parameters_[block.members.front()].scalar_type();
  const std::size_t element = size_of(block.dtype);
  block.memory = negotiation_.ranks().allocate(std::max<std::size_t>(1, block.buckets.elements()) * element);
  for (const std::size_t i : block.members) {
    places_[i].view = torch::from_blob(
        block.memory.get() + block.buckets.offset(places_[i].member) * element, parameters_[i].sizes(),
        [memory = block.memory](void*) {}, torch::TensorOptions(type));
  }
  block.reduces.resize(block.buckets.count());
  for (std::size_t bucket = 0; bucket < block.reduces.size() && block.dtype == DType::kF32; ++bucket) {
    block.reduces[bucket].compressed = std::make_unique<collective::CompressedReduce>(
        negotiation_.ranks(), options_.compression, block.buckets.elements(bucket),
        collective::ReduceOptions{.op = options_.op, .lanes = options_.lanes});
  }
}

void GradientBuckets::place_on_device() {
  if (alone()) return;
  const auto block = std::ranges::find(blocks_, DType::kF32, &Block::dtype);
  std::vector<torch::Tensor> wanted;
  if (block != blocks_.end() && options_.compression.kind == codec::Kind::kNone) {
    for (const std::size_t i : block->members) wanted.push_back(parameters_[i]);
  }
  on_device_ = DeviceGradients::make(negotiation_, wanted, options_.lanes);
  for (std::size_t member = 0; member < wanted.size() && on_device_; ++member) {
    places_[block->members[member]].view = on_device_->gradient(member);
  }
  const bool told = !wanted.empty() && device::runs_on(wanted.front().device());  // by DeviceSums
  if (on_device_ || told || std::ranges::all_of(parameters_, [](const auto& each) { return each.is_cpu(); })) return;
  std::size_t bytes = 0;
  for (const torch::Tensor& parameter : parameters_) bytes += parameter.nbytes();
  log_warn("gradients_through_host", "gradients of the GPU go through the host's memory",
           {{"ranks", negotiation_.ranks().size()}, {"bytes_per_step", 2 * bytes}});
}

void GradientBuckets::begin_step() {
  added_any_ = false;
  for (Block& block : blocks_) {
    block.started = 0;
    block.outcome.reset();
    block.buckets.begin();
  }
}

void GradientBuckets::add(std::size_t i) {
  torch::NoGradGuard no_grad;
  const Place& place = places_[i];
  const torch::Tensor gradient = parameters_[i].grad();
  if (!place.view.defined()) {  // nothing is sent
  } else if (!gradient.defined()) {
    place.view.zero_();
  } else if (gradient.is_sparse()) {
    place.view.copy_(gradient.to_dense());
  } else if (gradient.data_ptr() != place.view.data_ptr()) {
    place.view.copy_(gradient);
  }
  add_filled(i);
}

void GradientBuckets::add_filled(std::size_t i) {
  blocks_[places_[i].block].buckets.add(places_[i].member);
  added_any_ = true;
  start_ready();
}

void GradientBuckets::start_ready() {
  for (Block& block : blocks_) {
    for (; block.started < block.buckets.count(); ++block.started) {
      if (!block.buckets.full(block.started)) return;  // those behind wait as well: all ranks send in the same order
      if (block.memory) start(block, block.started);
    }
  }
}

void GradientBuckets::start(Block& block, std::size_t bucket) {
  Reduce& reduce = block.reduces[bucket];
  const bool compressed = reduce.compressed != nullptr;
  if (!block.outcome) {
    block.outcome = negotiation_.start({.kind = OpRequest::Kind::kAllReduce,
                                        .dtype = block.dtype,
                                        .op = options_.op,
                                        .codec = compressed ? options_.compression.kind : codec::Kind::kNone,
                                        .ratio = options_.compression.ratio,
                                        .count = block.buckets.elements(),
                                        .piece = block.buckets.elements(0)},
                                       "gradients");
  }
  const std::size_t first = block.buckets.first(bucket);
  const std::size_t count = block.buckets.elements(bucket);
  std::byte* memory = block.memory.get() + first * size_of(block.dtype);
  if (compressed) {
    reduce.compressed->start({reinterpret_cast<float*>(memory), count}, mix_seed(negotiation_.rounds(), first));
  } else {
    reduce.plain = collective::PendingOperation(negotiation_.ranks(),
                                                collective::all_reduce(collective::Array(block.dtype, memory, count),
                                                                       {.op = options_.op, .lanes = options_.lanes}));
  }
}

void GradientBuckets::finish() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (!blocks_[places_[i].block].buckets.has(places_[i].member)) add(i);
  }
  if (on_device_) on_device_->reduce(options_.op);
  for (Block& block : blocks_) {
    if (block.reduces.empty()) continue;
    for (Reduce& reduce : block.reduces) {
      reduce.plain.wait();
      if (reduce.compressed) reduce.compressed->finish();
    }
    scale(block);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) give_back(i);
  begin_step();
}

/// The parameter's gradient is the sum.
void GradientBuckets::give_back(std::size_t i) {
  torch::Tensor& gradient = parameters_[i].mutable_grad();
  const torch::Tensor& view = places_[i].view;
  const bool dense = gradient.defined() && !gradient.is_sparse();
  if (!view.defined()) {
    if (!dense) gradient = gradient.defined() ? gradient.to_dense() : torch::zeros_like(parameters_[i]);
  } else if (view.device() == parameters_[i].device()) {
    if (!dense || gradient.data_ptr() != view.data_ptr()) gradient = view;
  } else if (dense) {
    gradient.copy_(view);
  } else {
    gradient = view.to(parameters_[i].device());
  }
}

/// A mean is over those that contributed; the collective divided by all ranks.
void GradientBuckets::scale(Block& block) {
  const std::uint32_t contributors = block.outcome->contributors();
  const std::uint32_t ranks = negotiation_.ranks().size();
  if (options_.op == collective::ReduceOp::kSum || contributors == ranks) return;
  for (const std::size_t i : block.members) places_[i].view.mul_(static_cast<double>(ranks) / contributors);
}

}  // namespace trireme::dist
