#include <cmath>
#include <limits>

#include <torch/version.h>

#include "trireme/tensor_parallel.h"

#include "base/error.h"

namespace trireme::parallel {

LaneTensors attention_by_heads(TensorGroup& group, const LaneTensors& qkv, std::int64_t heads, bool causal,
                               double dropout_probability) {
  group.check_divides(heads, "heads");
  const std::int64_t here = heads / group.lanes();  // of each lane
  const std::int64_t batch = qkv.front().size(0);
  const std::int64_t length = qkv.front().size(1);
  const std::int64_t width = qkv.front().size(2) / 3;
  const auto by_head = [&](const torch::Tensor& x) {  // -> batch × heads × length × width of a head
    return x.reshape({batch, length, here, width / here}).transpose(1, 2);
  };
  const auto together = [&](const torch::Tensor& x) { return x.transpose(1, 2).reshape({batch, length, width}); };
#if TORCH_VERSION_MAJOR >= 2
  if (dropout_probability <= 0) {
    return each_lane(qkv, [&](const torch::Tensor& lane) {
      const auto parts = lane.chunk(3, /*dim=*/2);
      return together(
          at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {}, 0.0, causal));
    });
  }
#endif
  LaneTensors weights = each_lane(qkv, [&](const torch::Tensor& lane) {  // batch × heads × length × length
    const auto parts = lane.chunk(3, /*dim=*/2);
    const double scale = 1.0 / std::sqrt(static_cast<double>(width / here));
    torch::Tensor scores = torch::matmul(by_head(parts[0]), by_head(parts[1]).transpose(-2, -1)) * scale;
    if (causal) {
      const torch::Tensor later = torch::ones({length, length}, scores.options().dtype(torch::kBool)).triu(1);
      scores = scores.masked_fill(later, -std::numeric_limits<float>::infinity());
    }
    return torch::softmax(scores, -1);
  });
  weights = dropout(group, std::move(weights), 1, heads, dropout_probability);
  LaneTensors mixed;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    mixed.push_back(together(torch::matmul(weights[i], by_head(qkv[i].chunk(3, /*dim=*/2)[2]))));
  }
  return mixed;
}

}  // namespace trireme::parallel
