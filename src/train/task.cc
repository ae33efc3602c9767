#include "trireme/task.h"

#include "base/error.h"

namespace trireme {

Batch::Batch(data::Schema schema, std::vector<torch::Tensor> tensors, std::vector<torch::Tensor> lengths)
    : schema_(std::move(schema)), tensors_(std::move(tensors)), lengths_(std::move(lengths)) {
  if (tensors_.size() != schema_.size()) {
    fail<InvalidArgument>("{} tensors for samples of {} fields: {}", tensors_.size(), schema_.size(),
                          schema_.describe());
  }
  lengths_.resize(tensors_.size());
}

const torch::Tensor& Batch::target() const {
  const std::vector<std::size_t> fields = schema_.with(data::Role::kTarget);
  if (fields.empty()) fail<InvalidArgument>("these samples have no target: {}", schema_.describe());
  return tensors_[fields.front()];
}

std::int64_t Batch::size() const { return tensors_.empty() ? 0 : tensors_.front().size(0); }

std::vector<torch::Tensor> Batch::with(data::Role role) const {
  std::vector<torch::Tensor> found;
  for (const std::size_t field : schema_.with(role)) found.push_back(tensors_[field]);
  return found;
}

}  // namespace trireme
