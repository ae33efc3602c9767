#include "train/compute/tensor_batch.h"

#include "tensor/torch_dtype.h"

namespace trireme {

Batch to_tensors(const data::Batch& batch, SampleRange part, torch::Device device) {
  const data::Schema& schema = batch.schema();
  std::vector<torch::Tensor> tensors;
  std::vector<torch::Tensor> lengths(schema.size());
  for (std::size_t field = 0; field < schema.size(); ++field) {
    std::vector<std::int64_t> shape(batch.shape(field).begin(), batch.shape(field).end());
    shape.front() = static_cast<std::int64_t>(part.count);
    const std::size_t each = batch.bytes(field).size() / batch.size();
    auto* first = const_cast<std::byte*>(batch.bytes(field).data()) + part.first * each;
    tensors.push_back(torch::from_blob(first, shape, scalar_type_of(schema[field].dtype)).to(device));
    if (batch.lengths(field).empty()) continue;
    auto* length = const_cast<std::int64_t*>(batch.lengths(field).data()) + part.first;
    lengths[field] = torch::from_blob(length, {shape.front()}, torch::kInt64).to(device);
  }
  return {schema, std::move(tensors), std::move(lengths)};
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
