#include "train/compute/tensor_batch.h"

#include "tensor/torch_dtype.h"

namespace trireme {

namespace {

/// A field of these samples, and the lengths of it if it varies, where they are in the host's memory.
std::pair<torch::Tensor, torch::Tensor> field_of(const data::Batch& batch, SampleRange part, std::size_t field) {
  std::vector<std::int64_t> shape(batch.shape(field).begin(), batch.shape(field).end());
  shape.front() = static_cast<std::int64_t>(part.count);
  const std::size_t each = batch.bytes(field).size() / batch.size();
  auto* first = const_cast<std::byte*>(batch.bytes(field).data()) + part.first * each;
  std::pair<torch::Tensor, torch::Tensor> found{
      torch::from_blob(first, shape, scalar_type_of(batch.schema()[field].dtype)), {}};
  if (batch.lengths(field).empty()) return found;
  auto* length = const_cast<std::int64_t*>(batch.lengths(field).data()) + part.first;
  found.second = torch::from_blob(length, {shape.front()}, torch::kInt64);
  return found;
}

}  // namespace

Batch to_tensors(const data::Batch& batch, SampleRange part, torch::Device device) {
  std::vector<torch::Tensor> tensors;
  std::vector<torch::Tensor> lengths(batch.schema().size());
  for (std::size_t field = 0; field < batch.schema().size(); ++field) {
    const auto [values, length] = field_of(batch, part, field);
    tensors.push_back(values.to(device));
    if (length.defined()) lengths[field] = length.to(device);
  }
  return {batch.schema(), std::move(tensors), std::move(lengths)};
}

data::Batch::Allocate batch_memory(torch::Device device) {
  if (!device.is_cuda()) return {};
  return [](std::size_t bytes) {
    const auto pinned = torch::TensorOptions(torch::kUInt8).pinned_memory(true);
    torch::Tensor memory = torch::empty({static_cast<std::int64_t>(bytes)}, pinned);
    auto* const first = static_cast<std::byte*>(memory.data_ptr());
    return std::shared_ptr<std::byte>(first, [memory = std::move(memory)](std::byte*) {});
  };
}

void copy_samples(const data::Batch& batch, SampleRange part, const Batch& to) {
  const torch::NoGradGuard no_grad;
  for (std::size_t field = 0; field < batch.schema().size(); ++field) {
    const std::string& name = batch.schema()[field].name;
    const auto [values, length] = field_of(batch, part, field);
    torch::Tensor(to[name]).copy_(values);
    if (length.defined()) torch::Tensor(to.lengths(name)).copy_(length);
  }
}

Batch read_samples(const data::Dataset& samples, std::span<const std::uint64_t> indices, torch::Device device,
                   std::uint64_t epoch) {
  data::Batch read;
  samples.read(indices, read, epoch);
  const Batch views = to_tensors(read, {0, read.size()}, device);
  if (!device.is_cpu()) return views;
  std::vector<torch::Tensor> tensors;
  std::vector<torch::Tensor> lengths(read.schema().size());
  for (std::size_t i = 0; i < read.schema().size(); ++i) {
    const std::string& name = read.schema()[i].name;
    tensors.push_back(views[name].clone());
    if (read.schema()[i].varies()) lengths[i] = views.lengths(name).clone();
  }
  return {read.schema(), std::move(tensors), std::move(lengths)};
}

}  // namespace trireme
