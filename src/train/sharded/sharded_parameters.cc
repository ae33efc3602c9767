#include "train/sharded/sharded_parameters.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "checkpoint/format.h"
#include "tensor/device/host_memory.h"

namespace trireme {
namespace {

/// From stage 2 on so many buckets can be on their way at a time.
constexpr std::size_t kBucketsInTransit = 3;

/// Memory that the ranks of a host share; of this process alone if there are no others.
std::shared_ptr<std::byte> shared_floats(collective::Communicator* group, std::size_t floats) {
  if (group != nullptr) return group->allocate(floats * sizeof(float));
  std::shared_ptr<float[]> memory(new float[floats]());
  return {memory, reinterpret_cast<std::byte*>(memory.get())};
}

}  // namespace

ShardedParameters::ShardedParameters(const std::vector<NamedParameter>& parameters, ShardedParametersOptions options,
                                     collective::Communicator* group)
    : options_(std::move(options)), average_(optim::average_array(options_.updates.config)) {
  torch::NoGradGuard no_grad;
  std::vector<std::size_t> elements;
  for (const NamedParameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() != torch::kFloat32) {
      fail<InvalidArgument>("parameter '{}' is not float32: gradients are summed in float32", parameter.name);
    }
    const auto slice = options_.slices.find(parameter.name);
    Part& part = parts_.emplace_back(
        Part{.name = parameter.name,
             .tensor = parameter.tensor,
             .whole = {parameter.tensor.sizes().vec(),
                       slice == options_.slices.end() ? std::nullopt : std::optional(slice->second)},
             .rule = rule_of(options_.updates, parameter),
             .config = options_.updates.config});
    part.config.l2 *= part.rule.decay;
    if (!part.tensor.is_contiguous()) part.tensor.set_data(part.tensor.contiguous());  // gradients come in rows
    part.initial = on_host(part.tensor);
    elements.push_back(static_cast<std::size_t>(parameter.tensor.numel()));
  }
  layout_ = ShardLayout(
      elements,
      {.ranks = options_.ranks, .bucket_floats = options_.bucket_bytes / sizeof(float), .groups = options_.layers});
  runs_ = layout_.runs(options_.rank);

  allocate_values(group);
  allocate_gradients(group);
  state_.resize(optim::state_floats(options_.updates.config));
  for (std::vector<float>& array : state_) array.resize(layout_.shard_floats(options_.rank));
}

void ShardedParameters::allocate_values(collective::Communicator* group) {
  if (divided()) {
    value_shard_.resize(layout_.shard_floats(options_.rank));
    return;
  }
  value_memory_ = shared_floats(group, layout_.all_floats());
  auto* at = reinterpret_cast<float*>(value_memory_.get());
  for (std::size_t bucket = 0; bucket < layout_.buckets(); ++bucket) {
    values_.emplace_back(at, layout_.floats(bucket));
    at += layout_.floats(bucket);
  }
}

void ShardedParameters::allocate_gradients(collective::Communicator* group) {
  const bool own_places =
      options_.stage == ZeroStage::kState || options_.whole_gradients || layout_.buckets() <= kBucketsInTransit;
  places_ = own_places ? layout_.buckets() : kBucketsInTransit;
  std::vector<std::size_t> size(places_);  // that of the largest bucket which uses the place
  for (std::size_t bucket = 0; bucket < layout_.buckets(); ++bucket) {
    size[bucket % places_] = std::max(size[bucket % places_], layout_.floats(bucket));
  }
  std::vector<std::size_t> first(places_);
  std::exclusive_scan(size.begin(), size.end(), first.begin(), std::size_t{0});
  place_floats_ = std::reduce(size.begin(), size.end());
  gradient_memory_ = shared_floats(group, place_floats_);
  auto* const memory = reinterpret_cast<float*>(gradient_memory_.get());
  for (std::size_t bucket = 0; bucket < layout_.buckets(); ++bucket) {
    gradients_.emplace_back(memory + first[bucket % places_], layout_.floats(bucket));
  }
  if (!own_places) gradient_shard_.resize(layout_.shard_floats(options_.rank));
}

std::span<const float> ShardedParameters::initial(std::size_t i) const {
  const torch::Tensor& tensor = parts_[i].initial;
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

void ShardedParameters::take_over(collective::Communicator* group) {
  torch::NoGradGuard no_grad;
  if (!divided()) gather_values(group);  // if it fails the module still has what it had
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    torch::Tensor& tensor = parts_[i].tensor;
    parts_[i].initial.reset();
    if (divided()) {
      tensor.set_data(torch::empty(tensor.sizes()));  // a storage of its own, of which only the memory goes
      continue;
    }
    float* const place = values_[layout_.bucket_of(i)].data() + layout_.offset(i);
    const auto keep = [memory = value_memory_](void* /*data*/) {};
    if (tensor.is_cpu()) tensor.set_data(torch::from_blob(place, tensor.sizes(), keep));
  }
  if (!divided()) return copy_to_module();
  for (std::size_t bucket = 0; bucket < layout_.buckets(); ++bucket) hide_whole(bucket);
}

std::string ShardedParameters::array_tensor(std::size_t array, const std::string& parameter) const {
  if (array == 0) return checkpoint::model_tensor(parameter);
  return checkpoint::optimizer_tensor(parameter, optim::state_names(options_.updates.config)[array - 1]);
}

/// Whatever is there now.
std::span<float> ShardedParameters::stored(std::size_t array, const ShardLayout::Run& run) {
  if (array == 0 && divided()) return std::span(value_shard_).subspan(run.in_shard, run.count);
  if (array == 0) return values_[run.bucket].subspan(run.in_bucket, run.count);
  return std::span(state_[array - 1]).subspan(run.in_shard, run.count);
}

std::span<float> ShardedParameters::owned(std::size_t array, const ShardLayout::Run& run) {
  if (averages_shown_ && array == 0) return stored(1 + *average_, run);
  if (averages_shown_ && array == 1 + *average_) return stored(0, run);
  return stored(array, run);
}

std::span<float> ShardedParameters::gradient(std::size_t i) {
  const auto count = static_cast<std::size_t>(parts_[i].tensor.numel());
  return gradients_[layout_.bucket_of(i)].subspan(layout_.offset(i), count);
}

std::span<float> ShardedParameters::bucket_gradients(std::size_t bucket) { return gradients_[bucket]; }

std::span<float> ShardedParameters::owned_gradients(std::size_t bucket) {
  const ShardLayout::Slice slice = layout_.slice(bucket, options_.rank);
  if (gradient_shard_.empty()) return gradients_[bucket].subspan(slice.first, slice.count);
  return std::span(gradient_shard_).subspan(layout_.in_shard(bucket, options_.rank), slice.count);
}

void ShardedParameters::add_squares_to(ExactSum& squares) {
  for (const ShardLayout::Run& run : runs_) {
    if (!options_.counts_whole && !parts_[run.parameter].whole.sliced()) continue;
    const std::size_t first = layout_.slice(run.bucket, options_.rank).first;
    add_squares(owned_gradients(run.bucket).subspan(run.in_bucket - first, run.count), squares);
  }
}

bool ShardedParameters::gradients_are_finite() {
  return std::ranges::all_of(runs_, [&](const ShardLayout::Run& run) {
    const std::size_t first = layout_.slice(run.bucket, options_.rank).first;
    return optim::all_finite(owned_gradients(run.bucket).subspan(run.in_bucket - first, run.count));
  });
}

void ShardedParameters::update(const optim::UpdateInput& input, Step step) {
  for (const ShardLayout::Run& run : runs_) {
    const Part& part = parts_[run.parameter];
    const std::size_t first = layout_.slice(run.bucket, options_.rank).first;
    optim::UpdateInput own = input;
    own.lr *= part.rule.lr;
    if (part.rule.prunable) {  // not in stage 3
      const std::span<const float> whole =
          values_[run.bucket].subspan(layout_.offset(run.parameter), static_cast<std::size_t>(part.tensor.numel()));
      own.prune_below = prune_below(options_.updates, part.rule, step, whole);
    }
    optim::StateArrays state{};
    for (std::size_t k = 0; k < state_.size(); ++k) state[k] = stored(1 + k, run).data();
    optim::apply_update(part.config, own, stored(0, run), state,
                        owned_gradients(run.bucket).subspan(run.in_bucket - first, run.count));
  }
}

void ShardedParameters::gather(collective::Communicator* group) {
  if (divided()) return;  // layers are gathered when they are needed
  gather_values(group);
  copy_to_module();
}

void ShardedParameters::gather_values(collective::Communicator* group) {
  if (group == nullptr || options_.ranks == 1) return;
  std::vector<collective::PendingOperation> pending;
  for (std::size_t bucket = 0; bucket < layout_.buckets(); ++bucket) {
    const ShardLayout::Slice slice = layout_.slice(bucket, options_.rank);
    collective::Operation operation =
        collective::all_gather(std::span<const float>(values_[bucket].subspan(slice.first, slice.count)),
                               values_[bucket], layout_.counts(bucket));
    operation.label = fmt::format("parameters {}", bucket);
    pending.emplace_back(*group, std::move(operation));
  }
  for (collective::PendingOperation& operation : pending) operation.wait();
}

void ShardedParameters::copy_to_module() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    torch::Tensor& tensor = parts_[i].tensor;
    if (tensor.is_cpu()) continue;  // the same memory
    tensor.copy_(torch::from_blob(values_[layout_.bucket_of(i)].data() + layout_.offset(i), tensor.sizes()));
  }
}

bool ShardedParameters::show_averages(collective::Communicator* group) {
  if (!average_ || averages_shown_) return false;
  swap_averages();
  gather(group);
  return true;
}

bool ShardedParameters::show_own(collective::Communicator* group) {
  if (!averages_shown_) return false;
  swap_averages();
  gather(group);
  return true;
}

void ShardedParameters::swap_averages() {
  for (const ShardLayout::Run& run : runs_) std::ranges::swap_ranges(stored(0, run), stored(1 + *average_, run));
  averages_shown_ = !averages_shown_;
}

std::span<const float> ShardedParameters::shown_slice(std::size_t bucket) const {
  const ShardLayout::Slice slice = layout_.slice(bucket, options_.rank);
  return std::span(value_shard_).subspan(layout_.in_shard(bucket, options_.rank), slice.count);
}

void ShardedParameters::show_whole(std::size_t bucket, const std::shared_ptr<float[]>& memory) {
  for (const std::uint32_t i : layout_.members(bucket)) {
    auto* const keep = new std::shared_ptr<float[]>(memory);
    const auto drop = [](void* kept) { delete static_cast<std::shared_ptr<float[]>*>(kept); };
    parts_[i].tensor.storage().set_data_ptr(
        c10::DataPtr(memory.get() + layout_.offset(i), keep, drop, c10::Device(c10::kCPU)));
  }
}

void ShardedParameters::hide_whole(std::size_t bucket) {
  for (const std::uint32_t i : layout_.members(bucket)) {
    parts_[i].tensor.storage().set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kCPU)));
  }
}

HeldBytes ShardedParameters::held() const {
  const std::uint64_t all = layout_.all_floats() * sizeof(float);
  const std::uint64_t shard = layout_.shard_floats(options_.rank) * sizeof(float);
  const bool whole_gradients = gradient_shard_.empty();
  return {.parameters = divided() ? shard : all,
          .gradients = whole_gradients ? all : shard,
          .optimizer = shard * state_.size(),
          .in_transit = whole_gradients ? 0 : place_floats_ * sizeof(float)};
}

}  // namespace trireme
